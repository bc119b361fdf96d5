/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The words that the shared C is written in, for the BPF target and for native compilers alike.
 *
 * Only fixed-width unsigned types carry values; s64 appears only to compare, never to divide.
 * A host may define before including any header of the core:
 *
 *   TB_FN        how a function of some size is declared (default: static)
 *   tb_loop(n)   a loop that its body leaves, in at most n rounds (default: a for loop)
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;

#define TB_INLINE static inline __attribute__((always_inline, unused))

#ifndef TB_FN
#define TB_FN static __attribute__((unused))
#endif

#ifndef tb_loop
#define tb_loop(n) for (u32 round = 0; round < (n); round++)
#endif
