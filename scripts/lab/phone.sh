#!/usr/bin/env bash
# The virtual phone: an emulated arm64 machine with a real kernel, real cpufreq, devfreq, thermal and battery nodes, ssh and adbd.
# usage: phone.sh COMMAND
#   up              build if needed, boot, wait until ssh and adb answer; prints SSH_... and ADB_... variables for eval
#   down            switch it off (down hard: pull the battery)
#   status          running or not, boot id, ports
#   env             print the variables again
#   ssh [COMMAND]   run a command in it, or a shell
#   adb ARGUMENTS   adb against it
#   log             its kernel's console
#   reboot [hard]   and wait until it is back; hard = reset without a warning
#   pause, cont     stop and continue its CPUs; connections stay open
#   clamp KHZ [I]   firmware clamp of cluster I (0, 1, 2; default 2), unknown to the kernel; 0 = none
#   heat-clamp N [I] clamp of the kernel's thermal side, N steps below the top, seen in scaling_max_freq; 0 = none
#   temp MC [SKIN]  cpu zone (and skin zone) temperature in milli-degrees
#   fight MS [KHZ]  a daemon that writes its own CPU limits over yours every MS milliseconds; 0 ends it
#   battery UA      fixed battery current; 0 = follow the clocks
#   gauge MS        how often the battery gauge refreshes
#   usb 0|1         USB power
#   gpu-load PCT    how busy the GPU says it is
#   adbd-kill       kill adbd in the phone; its init kills what adbd left behind and starts it again after 1 s
#   wipe            forget the phone's disk (while it is down)
#   drag 0|1        does work slow down with the clocks? (1 from the start)
#   build           build kernel module and initramfs anew
set -euo pipefail
# shellcheck source=scripts/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

N=${OPPTUNE_LAB_PHONE:-0}   # a second phone beside the first: OPPTUNE_LAB_PHONE=1
SSH_PORT=${OPPTUNE_LAB_PHONE_SSH_PORT:-$((16022 + N))}
ADB_PORT=${OPPTUNE_LAB_PHONE_ADB_PORT:-$((16055 + N))}
SERVER_PORT=${OPPTUNE_LAB_PHONE_ADB_SERVER_PORT:-15038}
DEADLINE=${OPPTUNE_LAB_PHONE_DEADLINE:-180}
IMAGE=$LAB/phone-image
RUN=$LAB/phone$N
SHARE=$LAB/share            # /data/share in the phone
PARAMETERS=/sys/module/vphone/parameters

build_if_older() {
    local newer
    newer=$([ ! -e "$IMAGE/initrd" ] || find "$HERE/module" "$HERE/guest" "$HERE/phone-build.sh" -newer "$IMAGE/initrd")
    if [ ! -e "$IMAGE/initrd" ] || [ -n "$newer" ]; then "$HERE/phone-build.sh"; fi
}

make_disk() {
    [ ! -e "$RUN/data.img" ] || return 0
    truncate -s "${OPPTUNE_LAB_PHONE_DISK:-2G}" "$RUN/data.img"
    PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q -L data "$RUN/data.img"
}

# slirp lets nobody in but through these two forwarded ports of 127.0.0.1.
start_machine() {
    daemon "$RUN/pid" "$RUN/qemu.log" qemu-system-aarch64 -name "vphone$N" -M virt,gic-version=3 \
        -cpu "${OPPTUNE_LAB_PHONE_CPU:-max,pauth-impdef=on}" -accel tcg,thread=multi -smp 4 -m "${OPPTUNE_LAB_PHONE_MEM:-2048}" \
        -nodefaults -display none -serial "file:$RUN/console.log" -monitor "unix:$RUN/monitor,server=on,wait=off" \
        -kernel "$IMAGE/kernel" -initrd "$IMAGE/initrd" \
        -append "console=ttyAMA0 quiet panic=5 rdinit=/init mitigations=off opptune.serial=vphone$N opptune.root=${OPPTUNE_LAB_PHONE_ROOT:-adb} ${OPPTUNE_LAB_PHONE_APPEND:-}" \
        -drive "if=none,id=data,format=raw,file=$RUN/data.img" -device virtio-blk-device,drive=data \
        -fsdev "local,id=share,path=$SHARE,security_model=none" -device virtio-9p-device,fsdev=share,mount_tag=share \
        -netdev "user,id=net,hostfwd=tcp:127.0.0.1:$SSH_PORT-:22,hostfwd=tcp:127.0.0.1:$ADB_PORT-:5555" \
        -device virtio-net-device,netdev=net -device virtio-rng-device
}

ssh_options() {
    SSH=(-i "$IMAGE/user_key" -p "$SSH_PORT" -o "UserKnownHostsFile=$RUN/known_hosts" -o StrictHostKeyChecking=yes
        -o IdentitiesOnly=yes -o ConnectTimeout=10 -o LogLevel=ERROR root@127.0.0.1)
}
in_phone() { ssh_options; timeout "${OPPTUNE_LAB_PHONE_TIMEOUT:-60}" ssh -n "${SSH[@]}" "$@"; }
boot_id() { in_phone cat /proc/sys/kernel/random/boot_id; }
running() { alive "$RUN/pid"; }
must_run() { running || die "the phone is not running; start it with: phone.sh up"; }

wait_reachable() {
    OPPTUNE_LAB_PHONE_TIMEOUT=10 wait_for "$DEADLINE" boot_id ||
        die "the phone does not answer on ssh port $SSH_PORT after $DEADLINE s; see $RUN/console.log and $RUN/qemu.log"
}

up() {
    need qemu-system-aarch64 ssh adb python3
    mkdir -p "$RUN" "$SHARE"
    if ! running; then
        build_if_older
        make_disk
        printf '[127.0.0.1]:%s %s\n' "$SSH_PORT" "$(cut -d' ' -f1,2 "$IMAGE/host_key.pub")" >"$RUN/known_hosts"
        start_machine
        sleep 0.5
        running || die "the emulator did not start: $(cat "$RUN/qemu.log")"
    fi
    wait_reachable
    adb_server "$SERVER_PORT"
    environment
}

environment() {
    printf 'SSH_HOST=127.0.0.1\nSSH_PORT=%s\nSSH_USER=root\nSSH_KEY=%q\nSSH_KNOWN_HOSTS=%q\nPHONE_SHARE=%q\n' \
        "$SSH_PORT" "$IMAGE/user_key" "$RUN/known_hosts" "$SHARE"
    adb_connect "$SERVER_PORT" "127.0.0.1:$ADB_PORT"
}

down() {
    if running; then
        if [ "${1:-}" != hard ] && [ "$(monitor 'info status')" = 'VM status: running' ]; then
            OPPTUNE_LAB_PHONE_TIMEOUT=20 in_phone 'sync; poweroff -f' >/dev/null 2>&1 || true
            wait_for 10 gone "$RUN/pid" || true
        fi
        stop "$RUN/pid"
    fi
    rm -f "$RUN/pid" "$RUN/monitor"
    # The adb server is shared by the phones; the last one out stops it.
    for pid in "$LAB"/phone[0-9]*/pid; do ! alive "$pid" || return 0; done
    adb_server_stop "$SERVER_PORT"
}

# One command to the emulator's own monitor, which works when nothing in the phone does.
monitor() {
    must_run
    python3 - "$RUN/monitor" "$1" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
def to_prompt():
    text = b""
    while not text.rstrip().endswith(b"(qemu)"):
        text += s.recv(4096)
    return text
to_prompt()
s.sendall(sys.argv[2].encode() + b"\n")
lines = to_prompt().decode(errors="replace").splitlines()
print("\n".join(lines[1:-1]))
END
}

reboot() {
    local before
    must_run
    if [ "${1:-}" = hard ]; then
        before=$(OPPTUNE_LAB_PHONE_TIMEOUT=10 boot_id || echo unknown)
        monitor system_reset >/dev/null
    else
        before=$(boot_id)
        in_phone 'sync; (sleep 0.2; reboot -f) >/dev/null 2>&1 &'
    fi
    wait_for "$DEADLINE" came_back "$before" || die "no new boot id after $DEADLINE s; see $RUN/console.log"
    adb_connect "$SERVER_PORT" "127.0.0.1:$ADB_PORT" >/dev/null
    boot_id
}
came_back() {
    local now
    now=$(OPPTUNE_LAB_PHONE_TIMEOUT=10 boot_id) && [ "$now" != "$1" ]
}

status() {
    running || { echo "phone $N: off"; exit 3; }
    echo "phone $N: pid $(cut -d' ' -f1 "$RUN/pid"), $(monitor 'info status'), ssh 127.0.0.1:$SSH_PORT, adb 127.0.0.1:$ADB_PORT"
    [ "$(monitor 'info status')" = 'VM status: running' ] || return 0
    echo "boot id $(OPPTUNE_LAB_PHONE_TIMEOUT=10 boot_id || echo '(no answer)')"
}

# A number and nothing else goes into the phone's shell.
number() { [[ ${1:-} =~ ^-?[0-9]+$ ]] || die "a number is missing; see: phone.sh help"; }
parameter() { number "$2"; must_run; in_phone "echo $2 >$PARAMETERS/$1"; }

clamp() {
    local i=${2:-2}
    number "$1"
    number "$i"
    must_run
    in_phone "IFS=, read -r a b c <$PARAMETERS/fw_cap_khz; set -- \$a \$b \$c
        case $i in 0) set -- $1 \$2 \$3 ;; 1) set -- \$1 $1 \$3 ;; 2) set -- \$1 \$2 $1 ;; esac
        echo \$1,\$2,\$3 >$PARAMETERS/fw_cap_khz"
}

heat_clamp() {
    local cpus=(0 2 3)
    number "$1"
    number "${2:-2}"
    must_run
    in_phone "for c in /sys/class/thermal/cooling_device*; do
        [ \$(cat \$c/type) != cpufreq-cpu${cpus[${2:-2}]} ] || echo $1 >\$c/cur_state; done"
}

temperature() {
    parameter cpu_mc "$1"
    [ -z "${2:-}" ] || parameter skin_mc "$2"
}

command=${1:-help}
[ $# = 0 ] || shift
case $command in
    up) up ;;
    down) down "$@" ;;
    status) status ;;
    env) must_run; environment ;;
    ssh) must_run; ssh_options; exec ssh "${SSH[@]}" "$@" ;;
    adb) must_run; lab_adb "$SERVER_PORT" -s "127.0.0.1:$ADB_PORT" "$@" ;;
    log) cat "$RUN/console.log" ;;
    reboot) reboot "$@" ;;
    pause) monitor stop >/dev/null ;;
    cont) monitor cont >/dev/null ;;
    clamp) clamp "$@" ;;
    heat-clamp) heat_clamp "$@" ;;
    temp) temperature "$@" ;;
    fight) number "${1:-}"; number "${2:-0}"; must_run; in_phone "fighter $*" ;;
    battery) parameter batt_ua "${1:-}" ;;
    gauge) parameter gauge_ms "${1:-}" ;;
    usb) parameter usb_online "${1:-}" ;;
    drag) parameter drag "${1:-}" ;;
    gpu-load) parameter gpu_busy "${1:-}" ;;
    adbd-kill) must_run; in_phone killall -9 adbd ;;
    wipe) running && die "the phone is running; first: phone.sh down"; rm -f "$RUN/data.img" ;;
    build) "$HERE/phone-build.sh" ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
