#!/usr/bin/env bash
# Builds the agent for arm64 devices: one program, nothing else needed on the device.
# usage: build-agent.sh [--no-llama] [--ndk] [--cpu FEATURES]
#   --no-llama       without llama.cpp: spin engine only; needs no C++ compiler, builds in minutes
#   --ndk            for Android proper (aarch64-linux-android) with $ANDROID_NDK_HOME and cargo-ndk; the only way to the
#                    GPU backends: GPU=vulkan or GPU=opencl in the environment
#   --cpu FEATURES   CPU features the device has, as llama.cpp's -march: default armv8.2-a+dotprod; with i8mm
#                    armv8.6-a+dotprod+i8mm; armv8-a for cores before 2018. An agent with more than the device has dies
#                    with SIGILL: look at Features in the device's /proc/cpuinfo (asimddp, i8mm)
# Without --ndk: a static aarch64 Linux program, which runs on Android as root and on boards. Debian's cross toolchain:
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install rustc-web cargo-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu g++-aarch64-linux-gnu
# or, with rustup: rustup target add aarch64-unknown-linux-gnu, and the two cross compilers.
# The result is target/agent/opptune-agent-aarch64; copied beside the opptune program it is found without --agent.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

features=llama ndk='' cpu=armv8.2-a+dotprod
while [ $# -gt 0 ]; do
    case $1 in
        --no-llama) features='' ;;
        --ndk) ndk=yes ;;
        --cpu) cpu=${2:?--cpu needs a value}; shift ;;
        *) sed -n '2,/^set/{/^#/s/^# \?//p}' "$0"; exit 2 ;;
    esac
    shift
done

die() { echo "build-agent.sh: $*" >&2; exit 1; }
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/cross} GGML_CPU_ARM_ARCH=$cpu
options=(build --release --bin opptune-agent --no-default-features)

# Debian's compiler and its arm64 library come as a pair; rustup's is used where it has the target.
static_build() {
    local target=aarch64-unknown-linux-gnu gcc=aarch64-linux-gnu-gcc
    command -v $gcc >/dev/null || die "$gcc is missing: apt-get install gcc-aarch64-linux-gnu g++-aarch64-linux-gnu"
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
        [ -d /usr/lib/rustlib/$target/lib ] || die "no Rust library for $target; see the head of this script"
        export RUSTC=/usr/bin/rustc PATH=/usr/bin:$PATH
    fi
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static -C strip=symbols"
    export CC_aarch64_unknown_linux_gnu=$gcc CXX_aarch64_unknown_linux_gnu=aarch64-linux-gnu-g++ AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
    export CFLAGS_aarch64_unknown_linux_gnu="-march=$cpu" CXXFLAGS_aarch64_unknown_linux_gnu="-march=$cpu"
    export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="--sysroot=/usr/aarch64-linux-gnu -I/usr/aarch64-linux-gnu/include"
    cargo "${options[@]}" --target $target ${features:+--features "$features"}
    built=$CARGO_TARGET_DIR/$target/release/opptune-agent
}

ndk_build() {
    [ -d "${ANDROID_NDK_HOME:-}" ] || die "ANDROID_NDK_HOME does not name an NDK"
    command -v cargo-ndk >/dev/null || die "cargo-ndk is missing: cargo install cargo-ndk; rustup target add aarch64-linux-android"
    export RUSTFLAGS="-C strip=symbols"
    cargo ndk --target arm64-v8a --platform 28 -- "${options[@]}" ${features:+--features "$features${GPU:+,$GPU}"}
    built=$CARGO_TARGET_DIR/aarch64-linux-android/release/opptune-agent
}

if [ -n "$ndk" ]; then ndk_build; else static_build; fi
mkdir -p target/agent
cp "$built" target/agent/opptune-agent-aarch64
stat -c '%n: %s bytes, CPU features '"$cpu" target/agent/opptune-agent-aarch64
