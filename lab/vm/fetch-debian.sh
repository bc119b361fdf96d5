#!/bin/bash
# fetch-debian.sh
#
# Unpacks a small Debian with systemd into build/debian/, as if that were the
# root directory: the packages that every Debian has, systemd, and the libraries
# of the programs here. `tombola-lab vm --debian` boots it. To fetch again,
# delete the directory.
#
# Nothing is installed or run: files are unpacked, and dpkg's own list of what
# is installed is written, so that in the guest dpkg installs packages as usual.
set -euo pipefail
. "$(dirname "$0")/apt-private.sh"

SUITE=trixie # the release whose kernels from backports have sched_ext
PACKAGES=('?essential' systemd-sysv libkmod2 libelf1t64 zlib1g)
NOT_NEEDED=(usr/share/{doc,man,locale,info,lintian,bash-completion,zsh,zoneinfo,i18n}
    usr/lib/x86_64-linux-gnu/gconv usr/lib/udev/hwdb.d usr/lib/systemd/catalog)

target=$BUILD_DIR/debian
[ ! -e "$target/complete" ] || exit 0
lock_build
[ ! -e "$target/complete" ] || exit 0

say "fetching Debian's $SUITE with systemd"
apt_private_open "$SUITE"

# All that an empty machine would need, as name=version.
closure() {
    apt_private_versions -o Dir::State::status=/dev/null "${PACKAGES[@]}"
}

# registered DEB: registers the package as installed; dpkg needs no list of its files.
registered() {
    local name
    name=$(dpkg-deb --show --showformat '${Package}' "$1")
    [ "$(dpkg-deb --field "$1" Multi-Arch)" != same ] || name+=:amd64
    : >"$root/var/lib/dpkg/info/$name.list"
    dpkg-deb --field "$1" | sed '1a Status: install ok installed' >>"$root/var/lib/dpkg/status"
    echo >>"$root/var/lib/dpkg/status"
}

work=$(mktemp -d "$BUILD_DIR/apt/debian.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$work/debs" "$root"/usr/{bin,sbin,lib,lib64} "$root"/var/lib/dpkg/{info,updates,triggers}
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done

mapfile -t packages < <(closure)
apt_private_download "$work/debs" "${packages[@]}"
for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$root"
    registered "$deb"
done
for path in "${NOT_NEEDED[@]}"; do rm -rf "${root:?}/$path"; done

# What the packages' own scripts would have made.
cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
ln -s mawk "$root/usr/bin/awk"

touch "$root/complete"
rm -rf "$target"
mv "$root" "$target"
