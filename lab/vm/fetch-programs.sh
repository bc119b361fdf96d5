#!/bin/bash
# fetch-programs.sh
#
# Unpacks programs of Debian 12 into build/programs/, as if that were the root
# directory, with the libraries that are missing here. `tombola-lab programs`
# runs them in the virtual machine. Nothing is installed. To fetch again, delete
# the directory.
#
# schbench is not among them: neither Debian nor a package registry has it.
set -euo pipefail
. "$(dirname "$0")/apt-private.sh"

SUITE=bookworm
PACKAGES=(rt-tests stress-ng sysbench nginx wrk)
PROGRAMS=(bin/hackbench bin/cyclictest bin/stress-ng bin/sysbench bin/wrk sbin/nginx)
# Packages that are needed to install the programs, but not to run them here:
# drivers behind stress-ng's test of a GPU, and what Debian's nginx is started with.
NOT_NEEDED='lib(llvm|z3|egl-mesa|gl1-mesa|glapi-mesa|drm-|elf|sensors|x11|xcb|vulkan|pciaccess).*'
NOT_NEEDED+='|.*python.*|iproute2|nginx-common'

target=$BUILD_DIR/programs
[ ! -e "$target/complete" ] || exit 0
lock_build
[ ! -e "$target/complete" ] || exit 0

say "fetching ${PACKAGES[*]} from Debian's $SUITE"
apt_private_open "$SUITE"

# What else apt would install for them on this machine, as name=version.
missing_libraries() {
    local own
    own=$(IFS='|' && echo "${PACKAGES[*]}")
    apt_private_versions "${PACKAGES[@]}" 2>/dev/null | grep -vE "^($own|$NOT_NEEDED)=" || true
}

work=$(mktemp -d "$BUILD_DIR/apt/programs.XXXXXX")
trap 'rm -rf "$work"' EXIT
mapfile -t libraries < <(missing_libraries)
apt_private_unpack "${PACKAGES[@]/%//$SUITE}" "${libraries[@]}" "$work"

for program in "${PROGRAMS[@]}"; do
    missing=$(LD_LIBRARY_PATH=$work/usr/lib/x86_64-linux-gnu:$work/lib/x86_64-linux-gnu \
        ldd "$work/usr/$program" | grep 'not found' || true)
    [ -z "$missing" ] || fail "$program lacks libraries: $missing" \
        "they are not in the list that apt gave, or are left out by NOT_NEEDED in this file" \
        "apt-get install --no-install-recommends ${PACKAGES[*]}, then run this again"
done
chmod 755 "$work"
touch "$work/complete"
rm -rf "$target"
mv "$work" "$target"
