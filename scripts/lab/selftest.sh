#!/usr/bin/env bash
# Starts all of the lab, checks that it does what README.md says, stops it. About a minute and a half.
# usage: selftest.sh [hosts|phone]
# shellcheck disable=SC2016 # what is in single quotes is for the shell of the phone
set -euo pipefail
# shellcheck source=scripts/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PHONE=$HERE/phone.sh
CPUFREQ=/sys/devices/system/cpu/cpufreq
PROXY_PORT=${OPPTUNE_LAB_PROXY_PORT:-17022}
failed=0

# expect NAME WANTED GOT
expect() {
    if [ "$2" = "$3" ]; then
        echo "ok    $1"
    else
        echo "FAIL  $1: wanted '$2', got '$3'"
        failed=1
    fi
}
phone() { "$PHONE" ssh "$@"; }

over_adb() {
    eval "$("$HERE/adbd.sh" up)"
    expect 'adbd: exit code and output' 'hello 7' \
        "$(lab_adb "$ADB_SERVER_PORT" -s "$ADB_SERIAL" shell 'printf "hello "; exit 7' || echo $?)"
    "$HERE/adbd.sh" kill
    eval "$("$HERE/adbd.sh" up)"
    expect 'adbd: back after kill' device "$(lab_adb "$ADB_SERVER_PORT" -s "$ADB_SERIAL" get-state)"
    "$HERE/adbd.sh" down
}

over_ssh() {
    local keys ssh
    eval "$("$HERE/sshd.sh" up)"
    "$HERE/cut.sh" up "$PROXY_PORT" "$SSH_PORT"
    keys=$LAB/cut-$PROXY_PORT/known_hosts
    sed "s/]:$SSH_PORT /]:$PROXY_PORT /" "$SSH_KNOWN_HOSTS" >"$keys"
    ssh=(timeout 20 ssh -n -i "$SSH_KEY" -o "UserKnownHostsFile=$keys" -o ConnectTimeout=3 -o LogLevel=QUIET -p "$PROXY_PORT" "$SSH_USER@$SSH_HOST")
    expect 'ssh: through the proxy' 7 "$("${ssh[@]}" 'exit 7' || echo $?)"
    "$HERE/cut.sh" stall "$PROXY_PORT"
    expect 'proxy: stalled' 255 "$("${ssh[@]}" true || echo $?)"
    "$HERE/cut.sh" resume "$PROXY_PORT"
    "$HERE/cut.sh" after "$PROXY_PORT" 1000 cut
    expect 'proxy: cut after 1000 bytes' 255 "$("${ssh[@]}" true || echo $?)"
    expect 'proxy: and on' back "$("${ssh[@]}" echo back)"
    "$HERE/cut.sh" down "$PROXY_PORT"
    "$HERE/sshd.sh" down
}

clocks() {
    expect 'phone: policies' 'policy0 policy2 policy3' "$(phone "cd $CPUFREQ; echo policy*")"
    expect 'phone: min above max' '930000 1401000' "$(phone "cd $CPUFREQ/policy0; echo 1401000 >scaling_min_freq
        echo 930000 >scaling_max_freq; a=\$(cat scaling_min_freq); echo 1803000 >scaling_max_freq
        echo \$a \$(cat scaling_min_freq); echo 0 >scaling_min_freq")"
    phone "echo 2802000 >$CPUFREQ/policy3/scaling_min_freq"
    "$PHONE" clamp 1106000
    expect 'phone: firmware clamp' '2802000 1106000' "$(phone "cd $CPUFREQ/policy3; echo \$(cat scaling_cur_freq cpuinfo_cur_freq)")"
    "$PHONE" clamp 0
    "$PHONE" heat-clamp 2
    expect 'phone: thermal clamp' 2401000 "$(phone "cat $CPUFREQ/policy3/scaling_max_freq")"
    "$PHONE" heat-clamp 0
    "$PHONE" fight 50 1836000
    sleep 1
    expect 'phone: a daemon fights the pin' 1826000 "$(phone "cat $CPUFREQ/policy3/scaling_max_freq")"
    "$PHONE" fight 0
    phone "for p in $CPUFREQ/policy*; do cat \$p/cpuinfo_max_freq >\$p/scaling_max_freq; echo 0 >\$p/scaling_min_freq; done"
    expect 'phone: GPU rounds to kHz' 123457000 "$(phone 'cd /sys/class/devfreq/vphone-gpu; echo 123456789 >max_freq; cat max_freq; echo 0 >max_freq')"
}

heat_and_power() {
    "$PHONE" temp 61000 39500
    expect 'phone: temperature' '61000 39500' "$(phone 'echo $(cat /sys/class/thermal/thermal_zone[01]/temp)')"
    "$PHONE" temp 38000 31000
    "$PHONE" gauge 100
    expect 'phone: a busy CPU draws more' yes "$(phone 'ua() { sleep 0.5; cat /sys/class/power_supply/battery/current_now; }
        idle=$(ua); (while :; do :; done) & busy=$(ua); kill $!; [ "$busy" -lt "$idle" ] && echo yes')"
    "$PHONE" gauge 1000
}

links() {
    local before
    expect 'phone: adb shell' aarch64 "$("$PHONE" adb shell uname -m)"
    "$PHONE" pause
    expect 'phone: paused, it says nothing' 124 "$(timeout 3 "$PHONE" ssh true || echo $?)"
    "$PHONE" cont
    "$PHONE" adbd-kill
    before=$(phone 'echo kept >/data/local/tmp/selftest; cat /proc/sys/kernel/random/boot_id')
    expect 'phone: reboot' new "$([ "$("$PHONE" reboot)" != "$before" ] && echo new)"
    expect 'phone: /data is kept' kept "$(phone 'cat /data/local/tmp/selftest; rm /data/local/tmp/selftest')"
    expect 'phone: adb after the reboot' aarch64 "$("$PHONE" adb shell uname -m)"
}

[ "${1:-hosts}" != hosts ] || { over_adb; over_ssh; }
if [ "${1:-phone}" = phone ]; then
    "$PHONE" up >/dev/null
    clocks
    heat_and_power
    links
    "$PHONE" down
fi
exit "$failed"
