#!/bin/bash
# fetch-kernel.sh newest|oldest|peers
#
# Puts a Debian kernel that has sched_ext into build/kernel/{newest,oldest,peers}/:
#
#   vmlinuz   the kernel
#   config    its configuration (libbpf looks for it in the guest)
#   version   what `uname -r` will say
#
# The versions are whatever trixie-backports holds today: `newest` is the newest
# complete one, `oldest` the oldest from 6.16 on, in both cases with
# CONFIG_SCHED_CLASS_EXT=y and type information that lets a scheduler load.
# `peers` is the newest complete one before 7.1, on which scx_flash
# and scx_rusty load as well, whatever they call (see kfuncs_are_whole).
# To look again, delete the directory.
#
# Up to 6.18 one linux-image package holds everything. Later, linux-image is
# empty, linux-binary holds the kernel and linux-base the configuration; old
# versions that have lost one of these are skipped.
set -euo pipefail
. "$(dirname "$0")/apt-private.sh"

SUITE=trixie-backports
FLAVOUR=cloud-amd64 # no drivers for real hardware: small, and boots fast
OLDEST_SUPPORTED=6.16
HIDDEN_ARGUMENTS_SINCE=7.1

# The kernel releases on offer, oldest first, for instance 6.16.3+deb13-cloud-amd64.
releases() {
    grep -x "linux-image-[0-9].*-$FLAVOUR" <<<"$names" | sed 's/^linux-image-//' | sort -V
}

# The packages that hold kernel and configuration of a release; nothing if the
# archive has lost one of them.
packages_of() {
    if ! grep -qx "linux-binary-$1" <<<"$names"; then
        echo "linux-image-$1"
    elif grep -qx "linux-base-$1" <<<"$names"; then
        echo "linux-binary-$1 linux-base-$1"
    fi
}

# first_of A B: whichever exists (the split packages moved the files out of /boot).
first_of() { if [ -e "$1" ]; then echo "$1"; else echo "$2"; fi; }

# Can a sched_ext scheduler call what it must? Since 7.1 the build hides, in the kernel's type information, the argument
# that the verifier fills in, and leaves NAME_impl behind. Several of Debian's builds did so for some functions only, and
# refuse every scheduler that calls one of the others (7.2.9 and 7.2.12 among them).
kfuncs_are_whole() {
    local release=${1%%+*} strings
    dpkg --compare-versions "$release" ge "$HIDDEN_ARGUMENTS_SINCE" || return 0
    strings=$(kernel_image "$2" | grep -aoE 'scx_bpf_(kick_cpu|pick_idle_cpu)_impl' | sort -u | wc -l)
    [ "$strings" = 2 ]
}

# The kernel proper inside a vmlinuz: its zstd payload starts at the format's magic number.
kernel_image() {
    local offset
    offset=$(LC_ALL=C grep -abom1 -P '\x28\xb5\x2f\xfd' "$1" | head -n 1 | cut -d: -f1)
    tail -c "+$((offset + 1))" "$1" | zstd -dcq 2>/dev/null || true
}

# Unpack one release into $work; false if it has no sched_ext, or not a whole one.
try_release() {
    local release=$1 packages=$2 root modules
    root=$work/root
    rm -rf "$root"
    # shellcheck disable=SC2086 # a list of names
    apt_private_unpack $packages "$root"
    modules=$root/usr/lib/modules/$release
    cp "$(first_of "$root/boot/vmlinuz-$release" "$modules/vmlinuz")" "$work/vmlinuz"
    cp "$(first_of "$root/boot/config-$release" "$modules/config")" "$work/config"
    echo "$release" >"$work/version"
    rm -rf "$root"
    grep -qx CONFIG_SCHED_CLASS_EXT=y "$work/config" && kfuncs_are_whole "$release" "$work/vmlinuz"
}

which=${1-}
before=
case $which in
newest) order=tac ;;
oldest) order=cat ;;
peers) order=tac before=$HIDDEN_ARGUMENTS_SINCE ;;
*) fail "the kernel to fetch is not known: '$which'" "a wrong argument" "fetch-kernel.sh newest|oldest|peers" ;;
esac

target=$BUILD_DIR/kernel/$which
[ ! -e "$target/version" ] || exit 0
lock_build
[ ! -e "$target/version" ] || exit 0

say "looking for the $which kernel with sched_ext in Debian's $SUITE"
apt_private_open "$SUITE"
names=$(apt_private cache pkgnames linux-)
work=$(mktemp -d "$BUILD_DIR/apt/kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT

for release in $(releases | $order); do
    dpkg --compare-versions "${release%%+*}" ge "$OLDEST_SUPPORTED" || continue
    [ -z "$before" ] || dpkg --compare-versions "${release%%+*}" lt "$before" || continue
    packages=$(packages_of "$release")
    [ -n "$packages" ] || continue
    if try_release "$release" "$packages"; then
        mkdir -p "$target"
        mv "$work/vmlinuz" "$work/config" "$target/"
        mv "$work/version" "$target/" # last: it says that the rest is there
        say "$which is $release"
        exit 0
    fi
done
fail "no kernel with sched_ext found in $SUITE" \
    "the archive's packages were rearranged, or none is complete just now" \
    "apt-cache search linux-image in that suite, and adjust packages_of in this file"
