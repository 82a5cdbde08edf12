#include "data/sha256_x86.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace vaecf::data {

#if defined(__x86_64__)

bool has_sha_instructions() {
  constexpr unsigned sha = 1U << 29;
  constexpr unsigned sse41 = 1U << 19;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & sse41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & sha) != 0;
}

// The order of words and of registers is that of Intel's "SHA Extensions" (2013).
__attribute__((target("sha,sse4.1"))) void compress_by_instructions(std::uint32_t* state,
                                                                    const std::uint32_t* constants,
                                                                    const unsigned char* block) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const auto store = [](void* to, __m128i value) { _mm_storeu_si128(static_cast<__m128i*>(to), value); };
  const __m128i cdab = _mm_shuffle_epi32(load(state), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(load(state + 4), 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  const __m128i abef_before = abef;
  const __m128i cdgh_before = cdgh;
  __m128i w[4];
  for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(block + 16 * i), big_endian);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {  // four rounds each
    const __m128i sum = _mm_add_epi32(w[i % 4], load(constants + 4 * i));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
    const __m128i older = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
    const __m128i middle = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
    w[i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(older, middle), w[(i + 3) % 4]);
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  store(state, _mm_blend_epi16(feba, dchg, 0xF0));
  store(state + 4, _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool has_sha_instructions() {
  return false;
}

void compress_by_instructions(std::uint32_t*, const std::uint32_t*, const unsigned char*) {}

#endif

}  // namespace vaecf::data
