#!/bin/bash
# fetch-qemu.sh
#
# Puts QEMU 10 from bookworm-backports into build/qemu10/, beside the system's
# own QEMU, which is not touched. build/qemu10/run is then qemu-system-x86_64.
#
# Why: QEMU 7.2 starves whole virtual CPUs under -icount as soon as there are
# two (a SCHED_FIFO task came 218 ms late); 10.0 does not (0.1 ms).
#
# Libraries that are missing here, or too old, are unpacked next to it; the rest
# is the system's. To fetch again, delete the directory.
set -euo pipefail
. "$(dirname "$0")/apt-private.sh"

SUITE=bookworm-backports
target=$BUILD_DIR/qemu10
[ ! -x "$target/run" ] || exit 0
lock_build
[ ! -x "$target/run" ] || exit 0

say "fetching QEMU 10 from Debian's $SUITE"
apt_private_open "$SUITE" bookworm bookworm-updates

OWN='qemu-system-(x86|common|data)|seabios'

# What else apt would install or upgrade for it on this machine, as
# name=version. Nothing is installed.
missing_libraries() {
    apt_private get install --print-uris -qq --no-install-recommends \
        "qemu-system-x86/$SUITE" 2>/dev/null |
        awk '{ gsub("%3a", ":", $2); split($2, part, "_"); print part[1] "=" part[2] }' |
        grep -vE "^($OWN)=" || true
}

work=$(mktemp -d "$BUILD_DIR/apt/qemu.XXXXXX")
trap 'rm -rf "$work"' EXIT
mapfile -t libraries < <(missing_libraries)
apt_private_unpack {qemu-system-{x86,common,data},seabios}/"$SUITE" "${libraries[@]}" "$work"

cat >"$work/run" <<'RUN'
#!/bin/sh
# QEMU 10, unpacked by lab/vm/fetch-qemu.sh.
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH=$here/usr/lib/x86_64-linux-gnu:$here/lib/x86_64-linux-gnu
QEMU_MODULE_DIR=$here/usr/lib/x86_64-linux-gnu/qemu
export LD_LIBRARY_PATH QEMU_MODULE_DIR
exec "$here/usr/bin/qemu-system-x86_64" \
    -L "$here/usr/share/seabios" -L "$here/usr/share/qemu" "$@"
RUN
chmod 755 "$work" "$work/run"

if ! "$work/run" --version >"$apt_dir/log" 2>&1; then
    cat "$apt_dir/log" >&2
    fail "the QEMU just unpacked does not start" \
        "a library is missing from the list that apt gave" \
        "run 'make deps' (it installs the system's QEMU and its libraries), then run this again"
fi
rm -rf "$target"
mv "$work" "$target"
say "$("$target/run" --version | head -n 1)"
