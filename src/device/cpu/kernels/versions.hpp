#pragma once

// A header of its own, so that each source of kernels includes no other's.
// Levels of x86-64, which are asked for by feature: the name of a processor would stand for that model alone.
// Sanitizers instrument the resolvers that function multiversioning needs before their runtime is up.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define VAECF_VERSIONS 1
#define VAECF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VAECF_VERSIONS 0
#define VAECF_CLONES
#endif
// Inlined into each clone, so that it is compiled for that clone's instruction set.
#define VAECF_INLINE inline __attribute__((always_inline))
