# Included by the top Makefile. What is installed beside the programs, where
# all of it goes, and the Debian package.

# DESTDIR is put before every path, to install into a folder that is packed then.
DESTDIR ?=
PREFIX ?= /usr/local

.PHONY: manuals install uninstall deb

# Manual pages and the shells' completions.
manuals: deps
	packaging/manuals.sh

# Not built here: root need not have a compiler.
install uninstall:
	DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' packaging/install.sh $@

deb: build manuals
	packaging/deb.sh
