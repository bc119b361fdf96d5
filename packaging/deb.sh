#!/bin/bash
# deb.sh
#
# Makes target/deb/tombola_VERSION_ARCHITECTURE.deb of what has been built, with
# debhelper, in a folder of its own: the source tree stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf target/deb
mkdir -p target/deb/source
cp -r packaging/debian target/deb/source/
cd target/deb/source
# Without fakeroot: all files become root's.
SOURCE=$OLDPWD DEB_RULES_REQUIRES_ROOT=no debian/rules binary >../log 2>&1 || {
    tail -n 20 ../log >&2
    printf '%s: the package could not be made\n  cause: the lines above say it\n  next:  sudo make deps, then make deb again\n' \
        "${0##*/}" >&2
    exit 1
}
cd ..
rm -r source
ls "$PWD"/*.deb
