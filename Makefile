# Tombola. `make help` says what there is.

include lab/vm/vm.mk packaging/packaging.mk

CARGO ?= cargo

.PHONY: all build test robust demo lint clean help

all: build manuals

help:
	@echo 'make demo    three users with 3:2:1 tickets on a real kernel, in a virtual machine'
	@echo 'make test    all tests but the long ones, those on the real kernel too'
	@echo 'make robust  ten minutes of stress, ten thousand steps of random economies, a hundred restarts; attacks on more'
	@echo '             machines; shares in three windows of time; and those of 80 economies on 2 to 7 CPUs, 22 s of each'
	@echo 'make lab-NAME  an experiment; target/release/tombola-lab --list says which there are'
	@echo 'make         the programs, in target/release, and their manual pages and completions, in target/manuals'
	@echo 'make install what make has made, as root; below PREFIX=/usr/local if not said, with DESTDIR= before it'
	@echo 'make uninstall   remove that'
	@echo 'make deb     a Debian package, in target/deb'
	@echo 'make deps    install what Debian packages the rest needs (as root)'
	@echo 'make clean   remove what was built and fetched'

build: deps
	$(CARGO) build --release --workspace

# In the release profile: so `build` need not compile build scripts and macros again.
lint: deps
	$(CARGO) fmt --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
	$(CARGO) test --release --workspace --test layout

demo: vm build
	target/release/tombola-lab demo --out out/demo

# make lab-rate: the experiment `rate`, and so for every name that `tombola-lab --list` gives.
lab-%: vm build
	target/release/tombola-lab $* --out out/$*

# These need no virtual machine: they run on this machine as it is, or on the simulated one.
lab-threads lab-order lab-processes lab-cache lab-multi-queue lab-scale: lab-%: build
	target/release/tombola-lab $* --out out/$*

# These measure other people's schedulers as well.
lab-error-by-window lab-error-by-window-queues lab-cost lab-programs: peers
lab-programs lab-web: programs

# Without the random economies on the real kernel (shares_by_...): three to twelve minutes each, and not all of them get what is
# due yet (docs/fairness.md); and without what repeats tests elsewhere, or takes minutes (at_length_...). They are in
# `make robust`.
test: vm lint build manuals
	$(CARGO) test --release --workspace -- --include-ignored --skip shares_by_ --skip at_length_
	RUSTFLAGS='--cfg loom' $(CARGO) test --release --target-dir target/loom --package tombola-pool --test loom

# As `make test` does it, but for long.
robust: vm build manuals
	TOMBOLA_RACES_SECONDS=600 TOMBOLA_ECONOMY_STEPS=10000 TOMBOLA_RESTARTS=100 TOMBOLA_ECONOMIES=10 TOMBOLA_WINDOWS=3 \
		$(CARGO) test --release --workspace --test machine --test vm -- robust:: economies:: attacks:: kernel:: at_length_ \
		--include-ignored --nocapture --test-threads=1

clean: vm-clean
	$(CARGO) clean
	rm -rf out
