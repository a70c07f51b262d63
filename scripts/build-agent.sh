#!/usr/bin/env bash
# Builds the agent for a phone or board with an aarch64 CPU. `opptune` finds the results next to itself.
# usage: build-agent.sh [OPTIONS]
#   --no-llama     without llama.cpp: pins, measures and spins, cannot run a model. A minute instead of a quarter of an hour
#   --cpu LEVEL    baseline (armv8-a), dotprod (armv8.2-a+fp16+dotprod: phones since about 2018), i8mm (armv8.6-a:
#                  since about 2022) or all; default: all. `opptune` pushes the best that the device's CPU can run
#   --out DIR      where the agents go; default: target/release, next to `opptune`
#   --vulkan       with the Vulkan backend (NDK only)
#   --opencl       with the OpenCL backend (NDK only)
# With ANDROID_NDK_HOME set, Android programs are built with that NDK (and rustup's aarch64-linux-android target).
# Otherwise static Linux programs, with Debian's cross toolchain: they run on Android as well, as root, on the CPU only.
set -euo pipefail
cd "$(dirname "$0")/.."

API=${ANDROID_API_LEVEL:-28}
NDK=${ANDROID_NDK_HOME:-}
OUT=target/release
FEATURES=llama
CPU=all

die() { echo "build-agent: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
        --no-llama) FEATURES= ;;
        --cpu) CPU=${2:?--cpu needs a level}; shift ;;
        --out) OUT=${2:?--out needs a directory}; shift ;;
        --vulkan | --opencl)
            [ -n "$NDK" ] || die "$1 needs ANDROID_NDK_HOME: a static program cannot load the phone's GPU driver"
            FEATURES+=,${1#--} ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done

# The instructions ggml may use. A static program cannot choose its kernels when it starts (ggml loads those variants as
# shared libraries), so each level is a program of its own.
arch_of() {
    case $1 in
        baseline) echo armv8-a ;;
        dotprod) echo armv8.2-a+fp16+dotprod ;;
        i8mm) echo armv8.6-a+fp16+dotprod+i8mm ;;
        *) die "--cpu is baseline, dotprod, i8mm or all, not $1" ;;
    esac
}

install_cross() {
    local packages=(g++-aarch64-linux-gnu)
    own_rust_can_cross || packages+=(rustc-web cargo-web libstd-rust-web-dev:arm64)
    dpkg --print-foreign-architectures | grep -qx arm64 && dpkg -s "${packages[@]}" >/dev/null 2>&1 && return
    [ "$(id -u)" = 0 ] || die "as root, run: dpkg --add-architecture arm64 && apt-get update && apt-get install ${packages[*]}"
    dpkg --add-architecture arm64
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"
}

own_rust_can_cross() { [ -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/aarch64-unknown-linux-gnu" ]; }

use_cross() {
    install_cross
    TARGET=aarch64-unknown-linux-gnu
    STRIP=aarch64-linux-gnu-strip
    CARGO=(cargo)
    own_rust_can_cross || { CARGO=(/usr/bin/cargo); export RUSTC=/usr/bin/rustc; unset RUSTUP_TOOLCHAIN; }
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CXX_aarch64_unknown_linux_gnu=aarch64-linux-gnu-g++
    export AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS='-C target-feature=+crt-static'
    export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="--sysroot=/usr/aarch64-linux-gnu -I/usr/aarch64-linux-gnu/include"
    export CMAKE_PROJECT_INCLUDE=$PWD/scripts/arm-arch.cmake
    [ -z "$FEATURES" ] || FEATURES+=,llama-cpp-2/static-stdcxx
}

use_ndk() {
    local bin
    bin=$(echo "$NDK"/toolchains/llvm/prebuilt/*/bin)
    [ -x "$bin/aarch64-linux-android$API-clang" ] || die "no compiler for Android API $API in $bin; set ANDROID_API_LEVEL"
    command -v rustup >/dev/null || die "the NDK build needs rustup, for the target aarch64-linux-android"
    rustup target add aarch64-linux-android
    TARGET=aarch64-linux-android
    STRIP=$bin/llvm-strip
    CARGO=(cargo)
    export ANDROID_NDK=$NDK ANDROID_API_LEVEL=$API
    export CC_aarch64_linux_android="$bin/aarch64-linux-android$API-clang"
    export CXX_aarch64_linux_android="$bin/aarch64-linux-android$API-clang++" AR_aarch64_linux_android="$bin/llvm-ar"
    export CARGO_TARGET_AARCH64_LINUX_ANDROID_LINKER="$bin/aarch64-linux-android$API-clang"
    [ -z "$FEATURES" ] || FEATURES+=,llama-cpp-2/static-stdcxx
}

build() {
    local level=$1 dir=target/agent-$1 name=opptune-agent-aarch64
    [ "$level" = baseline ] || name+=-$level
    OPPTUNE_ARM_ARCH=$(arch_of "$level")
    export OPPTUNE_ARM_ARCH GGML_CPU_ARM_ARCH=$OPPTUNE_ARM_ARCH
    "${CARGO[@]}" build --release --locked --target "$TARGET" --target-dir "$dir" \
        --no-default-features --features "$FEATURES" --bin opptune-agent
    mkdir -p "$OUT"
    "$STRIP" -o "$OUT/$name.new" "$dir/$TARGET/release/opptune-agent"
    mv "$OUT/$name.new" "$OUT/$name"
    echo "built $OUT/$name for $OPPTUNE_ARM_ARCH, $(stat -c %s "$OUT/$name") bytes"
}

if [ -n "$NDK" ]; then use_ndk; else use_cross; fi
# Without llama.cpp nothing depends on the level.
[ -n "$FEATURES" ] || CPU=baseline
if [ "$CPU" = all ]; then levels=(baseline dotprod i8mm); else levels=("$CPU"); fi
for level in "${levels[@]}"; do
    arch_of "$level" >/dev/null
    build "$level"
done
