// How a plain loop becomes one for the CPU at hand.
#pragma once

// g++ compiles each loop for several instruction sets and picks one when the program is loaded. All
// give the same bits: element by element, one rounding an operation. The loader picks before the
// sanitizers are ready, so their builds have the plain loop only; so has clang's.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DLOBD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DLOBD_CLONES
#endif

#if defined(__clang__)
#define DLOBD_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#else
#define DLOBD_VECTORIZE _Pragma("GCC ivdep")
#endif
