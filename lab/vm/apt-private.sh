# Sourced, not run. An apt of our own beside the system's: it reads other
# Debian suites into build/apt and leaves the system's sources, lists, cache and
# packages alone. Signatures are checked as apt always does, against Debian's
# own archive keyring, and unsigned lists are refused.
#
#   apt_private_open trixie-backports    choose the suites, read their lists
#   apt_private get download NAME...     apt-get, in those suites only
#   apt_private cache show NAME          apt-cache, likewise
#
# No mirror is named here: the one that the system already uses is asked for.

BUILD_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build
DEBIAN_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf '%s: %s\n' "${0##*/}" "$1"; }

# fail FACT CAUSE NEXT-STEP
fail() {
    printf '%s: %s\n  cause: %s\n  next:  %s\n' "${0##*/}" "$1" "$2" "$3" >&2
    exit 1
}

# One fetch at a time: two would write the same lists.
lock_build() {
    mkdir -p "$BUILD_DIR/apt"
    exec 9>"$BUILD_DIR/apt/lock"
    flock 9
}

# The first mirror of Debian's main that is not the security archive, which
# holds no backports.
debian_mirror() {
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' \
        'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
        awk '$3 == "main" && $2 !~ /-security$/ && !uri { uri = $1 } END { print uri }'
}

# apt_private_open SUITE...
apt_private_open() {
    local suite mirror_uri
    apt_dir=$BUILD_DIR/apt/$1
    [ -r "$DEBIAN_KEYRING" ] || fail "$DEBIAN_KEYRING is missing" \
        "this is not Debian, or a very small one" "apt-get install debian-archive-keyring"
    mirror_uri=$(debian_mirror)
    if [ -z "$mirror_uri" ] && [ "$(id -u)" = 0 ]; then
        apt-get update -qq >&2 || true
        mirror_uri=$(debian_mirror)
    fi
    [ -n "$mirror_uri" ] || fail "apt knows no Debian mirror" \
        "its lists are empty, or its sources name no Debian archive" \
        "make 'apt-get update' work as root, then run this again"

    mkdir -p "$apt_dir"/{lists/partial,cache/archives/partial,no-parts,state}
    for suite in "$@"; do
        echo "deb [arch=amd64 signed-by=$DEBIAN_KEYRING] $mirror_uri $suite main"
    done >"$apt_dir/sources.list"

    if ! apt_private get update -qq --error-on=any >"$apt_dir/log" 2>&1; then
        cat "$apt_dir/log" >&2
        fail "the package lists of $* could not be read" \
            "no network, or $mirror_uri does not carry them" \
            "make 'apt-get update' work, then run this again"
    fi
}

# The system's package state is read (what is installed), never written: only
# download, --print-uris and queries are used.
apt_private() {
    local tool=$1
    shift
    "apt-$tool" \
        -o Dir::Etc::SourceList="$apt_dir/sources.list" \
        -o Dir::Etc::SourceParts="$apt_dir/no-parts" \
        -o Dir::Etc::Preferences=/dev/null \
        -o Dir::Etc::PreferencesParts="$apt_dir/no-parts" \
        -o Dir::State="$apt_dir/state" \
        -o Dir::State::Lists="$apt_dir/lists" \
        -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Cache="$apt_dir/cache" \
        -o Acquire::AllowInsecureRepositories=false \
        -o Acquire::Languages=none \
        -o APT::Get::AllowUnauthenticated=false \
        -o APT::Sandbox::User="$(id -un)" \
        "$@"
}

# apt_private_versions [OPTION...] PACKAGE...: what apt would install for these, as name=version, a line each
apt_private_versions() {
    apt_private get install --print-uris -qq --no-install-recommends "$@" |
        awk '{ gsub("%3a", ":", $2); split($2, part, "_"); print part[1] "=" part[2] }'
}

# apt_private_download DIR PACKAGE...
apt_private_download() {
    (cd "$1" && apt_private get download -qq "${@:2}" >"$apt_dir/log" 2>&1) && return
    cat "$apt_dir/log" >&2
    fail "could not download ${*:2}" "the mirror is out of reach, or was updated a moment ago" "run this again"
}

# apt_private_unpack PACKAGE... DIR
apt_private_unpack() {
    local dir=${*: -1}
    local work deb
    work=$(mktemp -d "$apt_dir/download.XXXXXX")
    (apt_private_download "$work" "${@:1:$#-1}") || { rm -rf "$work" && exit 1; }
    for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$dir"; done
    rm -rf "$work"
}
