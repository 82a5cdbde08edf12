#pragma once

// Function multiversioning. Clones are selected by x86-64 feature level, because a CPU name would match that
// model only. Not used with sanitizers: they would instrument the resolvers, which run before the sanitizer
// runtime is initialized.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define VAECF_MULTIVERSIONING 1
#define VAECF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VAECF_MULTIVERSIONING 0
#define VAECF_CLONES
#endif
// Inlined into each clone, so that it is compiled for the clone's instruction set.
#define VAECF_INLINE inline __attribute__((always_inline))
