#!/usr/bin/env bash
# A real OpenSSH server on this machine's loopback: own configuration, host key, user key and known_hosts.
# usage: sshd.sh up      start it; prints SSH_HOST=... SSH_PORT=... SSH_USER=... SSH_KEY=... SSH_KNOWN_HOSTS=... for eval
#        sshd.sh kill    SIGKILL the server and every session of it; `up` brings it back
#        sshd.sh down    stop it
set -euo pipefail
# shellcheck source=scripts/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PORT=${OPPTUNE_LAB_SSHD_PORT:-15022}
RUN=$LAB/sshd-$PORT

make_files() {
    mkdir -p "$RUN"
    ssh_key "$RUN/host_key"
    ssh_key "$RUN/user_key"
    cp "$RUN/user_key.pub" "$RUN/authorized_keys"
    printf '[127.0.0.1]:%s %s\n' "$PORT" "$(cut -d' ' -f1,2 "$RUN/host_key.pub")" >"$RUN/known_hosts"
    cat >"$RUN/config" <<END
ListenAddress 127.0.0.1
Port $PORT
HostKey $RUN/host_key
PidFile none
AuthorizedKeysFile $RUN/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
MaxStartups 100
Subsystem sftp internal-sftp
END
}

up() {
    PATH=$PATH:/usr/sbin need sshd ssh-keygen
    make_files
    if gone "$RUN/pid"; then
        port_open "$PORT" && die "port $PORT is taken; set OPPTUNE_LAB_SSHD_PORT to a free one"
        # sshd run by root insists on this directory; it is normally made by the system's own service.
        [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
        daemon "$RUN/pid" "$RUN/log" /usr/sbin/sshd -D -e -f "$RUN/config"
        wait_for 30 port_open "$PORT" || die "sshd does not listen on $PORT; see $RUN/log"
    fi
    printf 'SSH_HOST=127.0.0.1\nSSH_PORT=%s\nSSH_USER=%s\nSSH_KEY=%q\nSSH_KNOWN_HOSTS=%q\n' \
        "$PORT" "$(id -un)" "$RUN/user_key" "$RUN/known_hosts"
}

# Sessions are processes of their own and outlive the listener. Only sshd's own processes are killed: what a session
# started is left alone, as it is when a link dies.
kill_all() {
    local listener session
    alive "$RUN/pid" || die "sshd is not running; start it with: sshd.sh up"
    read -r listener _ <"$RUN/pid"
    for session in $(pgrep -x sshd -P "$listener"); do
        pkill -9 -x sshd -P "$session" || true   # the half that dropped its privileges, when there is one
        kill -9 "$session" 2>/dev/null || true
    done
    kill -9 "$listener"
    wait_for 10 gone "$RUN/pid" || die "sshd does not die"
}

case ${1:-} in
    up) up ;;
    kill) kill_all ;;
    down) if alive "$RUN/pid"; then kill_all; fi; rm -f "$RUN/pid" ;;
    *) sed -n '2,/^set/s/^# //p' "$0"; exit 2 ;;
esac
