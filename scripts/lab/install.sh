#!/usr/bin/env bash
# Installs the Debian packages the lab needs. Quick when they are all there; run by the other scripts when one is missing.
set -euo pipefail

PACKAGES=(
    qemu-system-arm gcc-aarch64-linux-gnu gcc make cpio e2fsprogs   # the virtual phone
    adb                                                             # the adb client and server
    openssh-server openssh-client                                   # loopback sshd, and the way into the phone
    python3 xz-utils procps                                         # proxy, monitor; packages; pgrep
)

missing=()
for p in "${PACKAGES[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

echo "lab: installing ${missing[*]}" >&2
sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo)

# Installing openssh-server must not start a system-wide sshd; the lab runs its own on loopback.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
    "${sudo[@]}" chmod 755 "$policy"
    trap '"${sudo[@]}" rm -f "$policy"' EXIT
fi

apt_get=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600)
"${apt_get[@]}" install -y --no-install-recommends "${missing[@]}" >&2 ||
    { "${apt_get[@]}" update >&2 && "${apt_get[@]}" install -y --no-install-recommends "${missing[@]}" >&2; }
