#!/usr/bin/env bash
# A short sweep with real inference over a real link: this machine as its own device, over adb (adbd 34) or ssh on
# loopback. The agent and the 98 MB model are pushed; the knob is a CPU quota (cgroup), shown before and after.
# usage: real-sweep.sh adb|ssh [--results DIR]
# Needs root, the model (scripts/fetch-model.sh) and a build: cargo build --features llama,ssh
# (OPPTUNE_LAB_OPPTUNE names another opptune than target/debug/opptune.)
set -euo pipefail
# shellcheck source=scripts/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

TOP=$HERE/../..
OPPTUNE=${OPPTUNE_LAB_OPPTUNE:-$TOP/target/debug/opptune}
WORK=$(mktemp -d)
LINK=${1:-}
shift || true

# The levels and settings of examples/this-host.toml, cut down to a few trials.
write_config() {
    sed 's/levels = \[.*\]/levels = [1000, 2000]/' "$TOP/device-profiles/linux-host.toml" >"$WORK/linux-host-short.toml"
    sed -i 's/^name = .*/name = "linux-host-short"/' "$WORK/linux-host-short.toml"
    sed -e "s|^profile = .*|profile = \"$WORK/linux-host-short.toml\"|" -e 's/^name = .*/name = "this-host-short"/' \
        -e 's/^prefill = .*/prefill = [16]/' -e 's/^decode = .*/decode = [4]/' \
        -e 's/^max-passes = .*/max-passes = 1/' -e 's/factor = 1.1/factor = 3.0/' \
        -e 's/^repeats = .*/repeats = 1/' -e 's/^baseline-repeats = .*/baseline-repeats = 1/' \
        "$TOP/examples/this-host.toml" >"$WORK/sweep.toml"
}

# The group that the quota knob makes, wherever the cpu controller is mounted.
show_quota() {
    local group file
    echo "-- quota $1"
    for group in /sys/fs/cgroup/opptune /sys/fs/cgroup/cpu*/opptune; do
        [ -d "$group" ] || continue
        for file in "$group"/cpu.max "$group"/cpu.cfs_*_us "$group"/cgroup.procs; do
            if [ -e "$file" ]; then echo "$file: $(tr '\n' ' ' <"$file")"; fi
        done
        return
    done
    echo "no group of opptune"
}

sweep_over_adb() {
    local said
    said=$("$HERE/adbd.sh" up)
    eval "$said"
    ANDROID_ADB_SERVER_PORT=$ADB_SERVER_PORT "$OPPTUNE" sweep "$WORK/sweep.toml" --device "adb:$ADB_SERIAL" "$@"
}

sweep_over_ssh() {
    local said
    said=$("$HERE/sshd.sh" up)
    eval "$said"
    printf 'Host lab\n HostName %s\n Port %s\n User %s\n IdentityFile %s\n UserKnownHostsFile %s\n' \
        "$SSH_HOST" "$SSH_PORT" "$SSH_USER" "$SSH_KEY" "$SSH_KNOWN_HOSTS" >"$WORK/ssh-config"
    OPPTUNE_SSH_CONFIG=$WORK/ssh-config "$OPPTUNE" sweep "$WORK/sweep.toml" --device ssh:lab "$@"
}

case $LINK in
    adb) daemon=adbd.sh ;;
    ssh) daemon=sshd.sh ;;
    *) sed -n '2,/^set/s/^# //p' "$0"; exit 2 ;;
esac
[ -x "$OPPTUNE" ] || die "there is no $OPPTUNE; build it: cargo build --features llama,ssh"
trap '"$HERE/$daemon" down; rm -rf "$WORK"' EXIT
write_config
show_quota before
code=0
"sweep_over_$LINK" "$@" || code=$?
show_quota after
echo "-- exit code $code"
exit "$code"
