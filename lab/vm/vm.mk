# Included by the top Makefile. What the virtual machine needs; each step does
# nothing when its result is there.

.PHONY: deps vm peers programs vm-clean

deps:
	lab/vm/deps.sh

vm: deps build/kernel/newest/version build/kernel/oldest/version build/kernel/peers/version build/qemu10/run build/debian/complete

build/kernel/%/version: | deps
	lab/vm/fetch-kernel.sh $*

build/qemu10/run: | deps
	lab/vm/fetch-qemu.sh

build/debian/complete: | deps
	lab/vm/fetch-debian.sh

# Other sched_ext schedulers, to compare with. They load on the kernel `peers`.
peers: deps build/kernel/peers/version
	lab/vm/fetch-peers.sh

# Programs of Debian's, to be run under each scheduler.
programs: deps
	lab/vm/fetch-programs.sh

# Look for newer kernels next time.
vm-clean:
	rm -rf build/kernel build/qemu10 build/debian build/apt
