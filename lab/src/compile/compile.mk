# Compiles elfutils' libelf, or its first FILES files, without its configure script. ELFUTILS is the directory of its sources;
# config.h is in the current one.
FILES := 1000
MAKEFLAGS += -rR
SOURCES := $(wordlist 1,$(FILES),$(sort $(wildcard $(ELFUTILS)/libelf/*.c)))
OBJECTS := $(patsubst $(ELFUTILS)/libelf/%.c,%.o,$(SOURCES))
CFLAGS := -std=gnu99 -O2 -D_GNU_SOURCE -DHAVE_CONFIG_H -I. -I$(ELFUTILS)/libelf -I$(ELFUTILS)/lib

libelf.a: $(OBJECTS)
	ar rcs $@ $^

%.o: $(ELFUTILS)/libelf/%.c
	gcc $(CFLAGS) -c $< -o $@

# What is compiled and included.
.PHONY: dependencies
dependencies:
	gcc $(CFLAGS) -M $(SOURCES)
