#!/usr/bin/env bash
# Installs the system packages that the full build (llama.cpp, ssh) and the end-to-end tests need on
# Debian or Ubuntu. Does nothing when they are there. The twin sweep needs none of them.
set -euo pipefail

packages=(
  cmake clang libclang-dev ninja-build       # llama.cpp and its bindings
  pkg-config libssl-dev                      # ssh links
  python3-pip unzip                          # scripts/fetch-model.sh
  adb openssh-server openssh-client          # daemons of the end-to-end tests
  fuse3                                      # unmounting twins that are mounted as a file system
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing and there is no root to install them: ${missing[*]}" >&2
    echo "setup: as root, run: apt-get update && apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
