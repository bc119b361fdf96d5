#!/bin/bash
# fetch-peers.sh
#
# Builds other sched_ext schedulers, to be measured beside Tombola, into
# build/peers/bin/: scx_flash and scx_rusty from crates.io, in the version below.
# Takes some minutes for each; does nothing if both are there.
# To build again, delete the directory.
set -euo pipefail
. "$(dirname "$0")/apt-private.sh"

VERSION=1.1.4
PEERS=(scx_flash scx_rusty)

missing=()
for peer in "${PEERS[@]}"; do
    [ -x "$BUILD_DIR/peers/bin/$peer" ] || missing+=("$peer")
done
[ ${#missing[@]} -gt 0 ] || exit 0

# clang-19 for their BPF parts, libelf and zlib for libbpf.
"$(dirname "$0")/deps.sh"

# Their build uses the clang in this variable; Debian 12's default is too old.
export BPF_CLANG=clang-19
for peer in "${missing[@]}"; do
    say "building $peer $VERSION, which takes some minutes"
    log=$BUILD_DIR/peers/$peer.log
    mkdir -p "$BUILD_DIR/peers"
    if ! nice -n 10 cargo install --quiet --locked --version "$VERSION" --root "$BUILD_DIR/peers" \
        --target-dir "$BUILD_DIR/peers/target" "$peer" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        fail "$peer $VERSION could not be built" "no network, or a missing library; the end of $log is above" \
            "make 'cargo install --version $VERSION $peer' work, then run this again"
    fi
done
rm -rf "$BUILD_DIR/peers/target"
