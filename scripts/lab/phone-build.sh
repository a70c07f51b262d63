#!/usr/bin/env bash
# Builds the virtual phone's kernel module and initramfs from Debian packages; called by `phone.sh build` and `phone.sh up`.
# Result: $LAB/phone-image/{kernel,initrd}. Needs nothing but this machine's Debian archive; changes nothing outside $LAB.
set -euo pipefail
# shellcheck source=scripts/lab/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

KERNEL_SUITE=${OPPTUNE_LAB_KERNEL_SUITE:-bookworm}   # Linux 6.1, the version of one generation of phones
GUEST_SUITE=${OPPTUNE_LAB_ADBD_SUITE:-trixie}        # the first with an adbd
CROSS=aarch64-linux-gnu-
OUT=$LAB/phone-image
ROOT=$OUT/root

# In this order: the modules that the kernel of a Debian arm64 machine would find by itself.
MODULES=(
    drivers/virtio/virtio_mmio net/core/failover drivers/net/net_failover drivers/net/virtio_net
    drivers/block/virtio_blk crypto/crc32c_generic lib/crc16 fs/mbcache fs/jbd2/jbd2 fs/ext4/ext4
    net/9p/9pnet net/9p/9pnet_virtio fs/netfs/netfs fs/fscache/fscache fs/9p/9p
    drivers/devfreq/governor_simpleondemand drivers/devfreq/governor_userspace
    drivers/cpufreq/cpufreq_ondemand drivers/cpufreq/cpufreq_conservative
    drivers/cpufreq/cpufreq_powersave drivers/cpufreq/cpufreq_userspace
)

fetch_kernel() {
    local version
    if [ ! -e "$LAB/kernel/.complete" ]; then
        lab_apt "$KERNEL_SUITE" arm64 apt-get update
        version=$(lab_apt "$KERNEL_SUITE" arm64 apt-cache depends linux-image-arm64 | sed -n 's/^ *Depends: linux-image-//p' | head -n 1)
        [ -n "$version" ] || die "the archive has no linux-image-arm64 in $KERNEL_SUITE; set OPPTUNE_LAB_KERNEL_SUITE"
        fetch_only "$KERNEL_SUITE" arm64 "$LAB/kernel" "linux-image-$version" "linux-headers-$version" "linux-headers-${version%-*}-common"
    fi
    version=$(basename "$LAB/kernel/usr/src/"linux-headers-*-common)
    version=${version#linux-headers-}
    fetch_only "$KERNEL_SUITE" amd64 "$LAB/kbuild" "linux-kbuild-${version%.*}"
    # The headers expect to be installed in /usr/src, with the build tools of this machine beside them.
    printf 'include %s\n' "$LAB/kernel/usr/src/"linux-headers-*-common/Makefile >"$(headers)/Makefile"
    rm -rf "$LAB/kernel/usr/lib/linux-kbuild-"*
    ln -s "$LAB/kbuild/usr/lib/linux-kbuild-"* "$LAB/kernel/usr/lib/"
}

headers() { echo "$LAB/kernel/usr/src/"linux-headers-*-arm64; }

build_module() {
    rm -rf "$OUT/module"
    cp -r "$HERE/module" "$OUT/module"
    make -s -C "$(headers)" M="$OUT/module" ARCH=arm64 CROSS_COMPILE="$CROSS" modules >"$OUT/module.log" 2>&1 ||
        die "the kernel module does not build; see $OUT/module.log"
}

# add FILE...: copies it from the Debian tree, with every library it needs.
add() {
    local file lib
    for file in "$@"; do
        [ ! -e "$ROOT/$file" ] || continue
        install -D -m 755 "$LAB/guest-debian/$file" "$ROOT/$file"
        for lib in $("${CROSS}readelf" -d "$LAB/guest-debian/$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
            if [ -e "$LAB/guest-debian/usr/lib/aarch64-linux-gnu/android/$lib" ]; then
                add "usr/lib/aarch64-linux-gnu/android/$lib"
            else
                add "usr/lib/aarch64-linux-gnu/$lib"
            fi
        done
    done
}

build_root() {
    local module tree
    tree=$(echo "$LAB/kernel/lib/modules/"*)
    rm -rf "$ROOT"
    mkdir -p "$ROOT"/{usr/bin,usr/lib,usr/sbin,etc/dropbear,modules,proc,sys,dev,run,tmp,data,mnt,root/.ssh,var/run}
    ln -s usr/lib usr/bin usr/sbin "$ROOT/"
    ln -s openssh/sftp-server "$ROOT/usr/lib/sftp-server"   # where dropbear looks
    add usr/bin/busybox usr/bin/dash usr/sbin/dropbear usr/bin/dropbearconvert usr/lib/openssh/sftp-server usr/lib/android-sdk/platform-tools/adbd
    ln -s aarch64-linux-gnu/ld-linux-aarch64.so.1 "$ROOT/usr/lib/"
    for module in "${MODULES[@]}"; do
        install -m 644 "$tree/kernel/$module.ko" "$ROOT/modules/"
        basename "$module.ko"
    done >"$ROOT/modules/order"
    cp "$OUT/module/vphone.ko" "$ROOT/modules/"
    cp -r "$HERE/guest/etc/." "$ROOT/etc/"
    install -m 755 "$HERE/guest/init" "$ROOT/init"
    install -m 755 "$HERE/guest/bin/"* "$ROOT/usr/bin/"
    # Not busybox as sh: it would run its own su, whatever the PATH says.
    ln -s dash "$ROOT/usr/bin/sh"
    # What `su` of guest/bin becomes root with, where adbd is not root.
    install -D -m 4755 "$ROOT/usr/bin/busybox" "$ROOT/usr/lib/su/su"
}

add_keys() {
    ssh_key "$LAB/phone-image/host_key"
    ssh_key "$LAB/phone-image/user_key"
    cp "$OUT/host_key" "$ROOT/etc/dropbear/host_key.openssh"
    cp "$OUT/user_key.pub" "$ROOT/root/.ssh/authorized_keys"
    chmod 700 "$ROOT/root" "$ROOT/root/.ssh"
}

main() {
    need "${CROSS}gcc-12" make cpio ssh-keygen xz
    mkdir -p "$OUT"
    fetch_kernel
    fetch "$GUEST_SUITE" arm64 "$LAB/guest-debian" adbd dropbear-bin openssh-sftp-server busybox-static dash
    build_module
    build_root
    add_keys
    # Not compressed: unpacking it in an emulated CPU would take longer than reading it.
    (cd "$ROOT" && find . | cpio --quiet -o -H newc -R 0:0) >"$OUT/initrd.new"
    cp "$LAB/kernel/boot/"vmlinuz-* "$OUT/kernel"
    mv "$OUT/initrd.new" "$OUT/initrd"
}

main
