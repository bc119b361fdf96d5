#!/bin/bash
# install.sh install|uninstall
#
# Installs what has been built below $DESTDIR$PREFIX, or removes it from there.
# Folders that other packages use as well stay.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${DESTDIR=}" "${PREFIX:=/usr/local}"
# Debian's own packages put these into share/zsh/vendor-completions.
: "${ZSH_COMPLETIONS:=share/zsh/site-functions}"

# files MODE FOLDER FILE...
files() {
    local mode=$1 folder=$DESTDIR$PREFIX/$2
    shift 2
    case $action in
    install) install -d "$folder" && install -m "$mode" -t "$folder" "$@" ;;
    uninstall) (set -- "${@##*/}" && rm -f "${@/#/$folder/}") ;;
    esac
}

action=${1-}
case $action in
install | uninstall) ;;
*) echo 'usage: install.sh install|uninstall' >&2 && exit 2 ;;
esac
for made in target/release/tombola target/manuals/man5/tombola.toml.5; do
    [ -e "$made" ] && continue
    printf '%s: %s is not there\n  cause: nothing has been built yet, or not all\n  next:  make, then this again\n' \
        "${0##*/}" "$made" >&2
    exit 1
done

files 755 bin target/release/{tombola,lnice,lrenice,lsetbase,ltix}
files 644 lib/systemd/system packaging/*.{service,mount}
files 644 share/man/man1 target/manuals/man1/*
files 644 share/man/man5 target/manuals/man5/*
files 644 share/bash-completion/completions target/manuals/completions/bash/*
files 644 "$ZSH_COMPLETIONS" target/manuals/completions/zsh/*
files 644 share/fish/vendor_completions.d target/manuals/completions/fish/*
files 644 include hosts/kernel/include/*.h
files 644 share/doc/tombola README.md
files 644 share/doc/tombola/docs docs/*.*
files 644 share/doc/tombola/docs/plans docs/plans/*
files 644 share/doc/tombola/examples cli/src/rules/example.toml
[ "$action" = install ] || rm -rf "$DESTDIR$PREFIX/share/doc/tombola"
