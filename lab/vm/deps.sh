#!/bin/bash
# deps.sh
#
# Installs, with apt, what Tombola needs beside Rust to be built, tested and
# measured on Debian 12. Does nothing if all of it is there.
set -euo pipefail
. "$(dirname "$0")/apt-private.sh"

PACKAGES=(
    # the BPF part: a compiler that knows the sched_ext headers, llvm-strip,
    # and what libbpf links with
    clang-19 llvm-19 libelf-dev zlib1g-dev pkg-config zstd
    # building
    gcc make libc6-dev
    # text in plots
    fonts-dejavu-core
    # manual pages, and the Debian package
    lowdown mandoc debhelper dpkg-dev
    # the virtual machine: QEMU, and what goes into the guest
    qemu-system-x86 busybox-static dash util-linux libc-bin jq
    # fetching kernels
    apt dpkg debian-archive-keyring ca-certificates
)

missing=()
for package in "${PACKAGES[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

[ "$(id -u)" = 0 ] || fail "these packages are missing: ${missing[*]}" \
    "only root can install packages" "run this as root, or: apt-get install ${missing[*]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt_get WHAT ARGS...: quiet unless it fails.
apt_get() {
    local what=$1
    shift
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 && return
    tail -n 20 "$log" >&2
    fail "apt-get could not $what" \
        "no network, another apt at work, or a mirror without these packages (Debian 12 has them all)" \
        "make 'apt-get $1' work by hand, then run this again"
}

say "installing ${missing[*]}"
apt_get "read the package lists" update
apt_get "install the packages" install --no-install-recommends -y "${missing[@]}"
