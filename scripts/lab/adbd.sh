#!/usr/bin/env bash
# A real adb device daemon (adbd 34, Debian trixie) on this machine's loopback, with an adb server of its own.
# usage: adbd.sh up      start both, connect; prints ADB_SERVER_PORT=... ADB_SERIAL=... ADBD_DIR=... for eval
#        adbd.sh kill    SIGKILL adbd only (the server stays, and sees the device go); `up` brings it back
#        adbd.sh port    print adbd's port
#        adbd.sh down    stop both
set -euo pipefail
# shellcheck source=scripts/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ADBD_PORT=${OPPTUNE_LAB_ADBD_PORT:-15555}
SERVER_PORT=${OPPTUNE_LAB_ADB_SERVER_PORT:-15037}   # not 5037: a developer's own adb server stays out of this
RUN=$LAB/adbd-$ADBD_PORT
TREE=$LAB/adbd-host

start_adbd() {
    alive "$RUN/pid" && return
    port_open "$ADBD_PORT" && die "port $ADBD_PORT is taken; set OPPTUNE_LAB_ADBD_PORT to a free one"
    fetch "${OPPTUNE_LAB_ADBD_SUITE:-trixie}" amd64 "$TREE" adbd
    mkdir -p "$RUN"
    gcc -shared -fPIC -O1 -o "$RUN/loopback.so" "$HERE/loopback.c" -ldl
    # adbd wants a newer C library than this machine may have, so it runs through its own loader and libraries.
    local libs=$TREE/usr/lib/x86_64-linux-gnu
    daemon "$RUN/pid" "$RUN/log" env -C "$RUN" ADBD_PORT="$ADBD_PORT" "$libs/ld-linux-x86-64.so.2" \
        --preload "$RUN/loopback.so" --library-path "$libs:$libs/android:$libs/systemd" \
        "$TREE/usr/lib/android-sdk/platform-tools/adbd"
    wait_for 30 port_open "$ADBD_PORT" || die "adbd does not listen on $ADBD_PORT; see $RUN/log"
}

up() {
    need adb gcc xz
    start_adbd
    adb_server "$SERVER_PORT"
    adb_connect "$SERVER_PORT" "127.0.0.1:$ADBD_PORT"
    printf 'ADBD_DIR=%q\n' "$RUN"   # where adbd runs what it is told to
}

case ${1:-} in
    up) up ;;
    kill)
        signal "$RUN/pid" KILL || die "adbd is not running; start it with: adbd.sh up"
        wait_for 10 gone "$RUN/pid" || die "adbd does not die"
        ;;
    port) echo "$ADBD_PORT" ;;
    down) adb_server_stop "$SERVER_PORT"; stop "$RUN/pid" ;;
    *) sed -n '2,/^set/s/^# //p' "$0"; exit 2 ;;
esac
