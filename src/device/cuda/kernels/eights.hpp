#pragma once

#include <vaecf/base/narrow.hpp>
#include <vaecf/device/cuda/storage.hpp>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// Access to eight elements at a time, 16 bytes of 16-bit values or 32 bytes of fp32, by 128-bit
/// instructions. Rows start at multiples of eight elements and have such a length, with zeros after their
/// columns.
namespace vaecf::cuda {

static_assert(row_alignment == 8);

struct Eight {
  float at[8];
};

struct alignas(16) FourWords {
  std::uint32_t word[4];
};

/// Packs two 16-bit values, the first one in the lower half. T::from and T::value define the conversion;
/// device instructions give the same result except for the bits of a NaN.
template <class T>
VAECF_HD inline std::uint32_t narrow_pair(float first, float second) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, Bf16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
#else
  return T::from(first).bits | static_cast<std::uint32_t>(T::from(second).bits) << 16;
#endif
}

template <class T>
VAECF_HD inline void widen_pair(std::uint32_t pair, float& first, float& second) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, Fp16>) {
    const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&pair));
    first = values.x;
    second = values.y;
    return;
  }
#endif
  first = T{static_cast<std::uint16_t>(pair)}.value();
  second = T{static_cast<std::uint16_t>(pair >> 16)}.value();
}

/// Returns whether the address has the alignment that 128-bit instructions require.
inline bool aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

VAECF_HD inline FourWords load_words(const void* from) {
#ifdef __CUDA_ARCH__
  // uint4 guarantees a single instruction; a memcpy or a plain struct does not.
  const uint4 four = *static_cast<const uint4*>(from);
  return {{four.x, four.y, four.z, four.w}};
#else
  FourWords words;
  std::memcpy(&words, __builtin_assume_aligned(from, 16), 16);
  return words;
#endif
}

VAECF_HD inline void store_words(void* to, const FourWords& words) {
#ifdef __CUDA_ARCH__
  *static_cast<uint4*>(to) = make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
#else
  std::memcpy(__builtin_assume_aligned(to, 16), &words, 16);
#endif
}

/// Four fp32 elements, accessed by one instruction.
struct Four {
  float at[4];
};
VAECF_HD inline Four load_four(const float* from) {
  const FourWords words = load_words(from);
  Four four;
  for (int j = 0; j < 4; ++j) four.at[j] = std::bit_cast<float>(words.word[j]);
  return four;
}

/// Loads eight elements; T: float, Bf16 or Fp16.
template <class T>
VAECF_HD inline Eight load_eight(const T* from) {
  Eight eight;
  if constexpr (std::is_same_v<T, float>) {
    for (int half = 0; half < 2; ++half) {
      const Four four = load_four(from + 4 * half);
      for (int j = 0; j < 4; ++j) eight.at[4 * half + j] = four.at[j];
    }
  } else {
    const FourWords words = load_words(from);
    for (int j = 0; j < 4; ++j) widen_pair<T>(words.word[j], eight.at[2 * j], eight.at[2 * j + 1]);
  }
  return eight;
}

template <class T>
VAECF_HD inline void store_eight(T* to, const Eight& eight) {
  FourWords words;
  if constexpr (std::is_same_v<T, float>) {
    for (int half = 0; half < 2; ++half) {
      for (int j = 0; j < 4; ++j) words.word[j] = std::bit_cast<std::uint32_t>(eight.at[4 * half + j]);
      store_words(to + 4 * half, words);
    }
  } else {
    for (int j = 0; j < 4; ++j) words.word[j] = narrow_pair<T>(eight.at[2 * j], eight.at[2 * j + 1]);
    store_words(to, words);
  }
}

template <class T>
VAECF_HD inline float widened(T number) {
  if constexpr (std::is_same_v<T, float>) {
    return number;
  } else {
    float value = 0.0F;
    float other = 0.0F;
    widen_pair<T>(number.bits, value, other);
    return value;
  }
}

template <class T>
VAECF_HD inline T narrowed(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return T{static_cast<std::uint16_t>(narrow_pair<T>(value, 0.0F))};
}

/// Calls f(w) for the work items of this block among `work`, one per thread. The kernel must have
/// blocks_for(work, threads) blocks.
template <int threads, class Lanes, class F>
VAECF_HD inline void each_of_grid(Lanes& lanes, std::int64_t block, std::int64_t work, F&& f) {
  const std::int64_t begin = block * threads;
  const std::int64_t left = work - begin;
  lanes.each(left < threads ? left : threads, [&](std::int64_t i) { f(begin + i); });
}

inline std::int64_t blocks_for(std::int64_t work, std::int64_t threads) {
  return (work + threads - 1) / threads;
}

/// Calls f(T{}) with the element type of `number`.
template <class F>
void with_number(Number number, F&& f) {
  switch (number) {
    case Number::fp32:
      return f(float{});
    case Number::bf16:
      return f(Bf16{});
    case Number::fp16:
      return f(Fp16{});
  }
}

}  // namespace vaecf::cuda
