#!/usr/bin/env bash
# A proxy in front of a port of 127.0.0.1, to break the link through it.
# usage: cut.sh up LISTEN TARGET            forward port LISTEN to port TARGET
#        cut.sh cut LISTEN                  reset every connection once
#        cut.sh drop LISTEN                 reset every connection, and new ones, until resume
#        cut.sh stall LISTEN                connections stay open, nothing passes, until resume
#        cut.sh resume LISTEN
#        cut.sh after LISTEN N cut|drop|stall   do so when exactly N more bytes went to the target
#        cut.sh count LISTEN                bytes to the target, bytes back, open connections
#        cut.sh down LISTEN
set -euo pipefail
# shellcheck source=scripts/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command=${1:-help}
LISTEN=${2:-}
RUN=$LAB/cut-$LISTEN

up() {
    need python3
    mkdir -p "$RUN"
    alive "$RUN/pid" && return
    port_open "$LISTEN" && die "port $LISTEN is taken; choose another"
    daemon "$RUN/pid" "$RUN/log" python3 "$HERE/flaky-proxy.py" "$LISTEN" "$1" "$RUN/control"
    wait_for 30 port_open "$LISTEN" || die "the proxy does not listen on $LISTEN; see $RUN/log"
}

tell() {
    alive "$RUN/pid" || die "no proxy on port $LISTEN; start it with: cut.sh up $LISTEN TARGET"
    python3 - "$RUN/control" "$*" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n")
answer = s.makefile().readline().strip()
if answer != "ok":
    print(answer)
sys.exit(answer.startswith("error"))
END
}

[[ $LISTEN =~ ^[0-9]+$ ]] || { sed -n '2,/^set/{/^#/s/^# //p}' "$0"; exit 2; }
shift 2
case $command in
    up) up "${1:?the target port is missing}" ;;
    down) stop "$RUN/pid" ;;
    *) tell "$command" "$@" ;;
esac
