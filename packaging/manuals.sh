#!/bin/bash
# manuals.sh
#
# Writes target/manuals/: the manual pages and the shells' completions of the
# commands, from the descriptions that they are called by, and tombola.toml(5)
# from docs/rules.md.
set -euo pipefail
cd "$(dirname "$0")/.."

# The date of all pages; builds that are to be repeated to the byte say which.
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%F)

rm -rf target/manuals
# With the workspace's features, as `make build`: for this package alone Cargo would compile its libraries once more.
"${CARGO:-cargo}" build --release --quiet --workspace --example manuals
target/release/examples/manuals target/manuals "$date"

# The document without its title, its sections one level up.
page() {
    printf '# NAME\n\ntombola.toml - the rules by which Tombola shares the CPUs\n\n# DESCRIPTION\n\n'
    sed -e 1d -e 's/^## /# /' docs/rules.md
    printf '\n# SEE ALSO\n\ntombola(1), tombola-config-check(1), tombola-reload(1)\n'
}

mkdir -p target/manuals/man5
# Code in bold: the font C is one of groff's own.
page | lowdown -s -t man -M title=tombola.toml -M section=5 -M "date=$date" |
    sed 's/\\fC/\\fB/g' >target/manuals/man5/tombola.toml.5
