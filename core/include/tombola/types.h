/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The types and macros of the shared C, for the BPF target and for native compilers alike.
 *
 * Only fixed-width unsigned types carry values. s64 appears only in comparisons, never in divisions. A host may define before it
 * includes any header of the core:
 *
 *   TB_FN           how a function of some size is declared (default: static)
 *   TB_GLOBAL_POOL  the host's only pool of clients is a variable, tb_global_pool; without it, each queue points to its pool
 *   tb_loop(n)      a loop whose body breaks out of it within n rounds (default: a for loop of at most n rounds). The kernel's
 *                   host ignores n, and lets the kernel end a loop after very many rounds (hosts/kernel/bpf/kernel.h, can_loop).
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

/*
 * The compiler forgets what it knows of a local variable: its origin, its range, the outcome of an earlier test of it. If it kept
 * that outcome, the BPF verifier would walk what lies between once for each.
 */
#define tb_forget(x) __asm__ volatile("" : "+r"(x))
