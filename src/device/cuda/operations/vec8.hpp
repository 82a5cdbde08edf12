#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/math/elementwise.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "device/cuda/alignment.hpp"
#include "device/cuda/platform/matmuls.hpp"
#include "device/cuda/shared_names.hpp"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// Access to eight elements at a time, 16 bytes of 16-bit values or 32 bytes of fp32, by 128-bit
/// instructions. Rows start at multiples of eight elements and have such a length, with zeros after their
/// columns.
namespace vaecf::cuda {

static_assert(row_alignment == 8);

struct Vec8 {
  float at[8];
};

VAECF_HD inline void add(const Vec8& values, Vec8& sums) {
  for (int j = 0; j < 8; ++j) sums.at[j] += values.at[j];
}

struct alignas(16) Words128 {
  std::uint32_t word[4];
};

/// Packs two 16-bit values, the first one in the lower half. T::from and T::value define the conversion;
/// device instructions give the same result except for the bits of a NaN.
template <class T>
VAECF_HD inline std::uint32_t pack2(float first, float second) {
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
VAECF_HD inline void unpack2(std::uint32_t pair, float& first, float& second) {
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
inline bool aligned(const void* memory, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

/// Throws std::logic_error if `memory` is not aligned: GPUs cannot access it.
inline void require_aligned(const void* memory, std::size_t bytes = 16) {
  if (!aligned(memory, bytes)) throw std::logic_error("an access of several elements must be aligned");
}

VAECF_HD inline Words128 load_words(const void* from) {
#ifdef __CUDA_ARCH__
  // uint4 guarantees a single instruction; a memcpy or a plain struct does not.
  const uint4 four = *static_cast<const uint4*>(from);
  return {{four.x, four.y, four.z, four.w}};
#else
  require_aligned(from);
  Words128 words;
  std::memcpy(&words, __builtin_assume_aligned(from, 16), 16);
  return words;
#endif
}

/// The memory that a store writes to.
enum class Memory { global, shared };

VAECF_HD inline void store_words(void* to, const Words128& words,
                                 [[maybe_unused]] Memory memory = Memory::global) {
#ifdef __CUDA_ARCH__
  if (memory == Memory::shared) {
    *static_cast<uint4*>(to) = make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
  } else {  // the compiler splits some stores to global memory
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words.word[0]), "r"(words.word[1]), "r"(words.word[2]), "r"(words.word[3])
                 : "memory");
  }
#else
  require_aligned(to);
  std::memcpy(__builtin_assume_aligned(to, 16), &words, 16);
#endif
}

/// Four fp32 elements, accessed by one instruction.
struct Vec4 {
  float at[4];
};
VAECF_HD inline Vec4 load_vec4(const float* from) {
  const Words128 words = load_words(from);
  Vec4 four;
  for (int j = 0; j < 4; ++j) four.at[j] = std::bit_cast<float>(words.word[j]);
  return four;
}

template <class T>
VAECF_HD inline void store_vec4(T* to, const Vec4& four) {
  if constexpr (std::is_same_v<T, float>) {
    Words128 words;
    for (int j = 0; j < 4; ++j) words.word[j] = std::bit_cast<std::uint32_t>(four.at[j]);
    store_words(to, words);
  } else {
    const std::uint32_t word[2] = {pack2<T>(four.at[0], four.at[1]), pack2<T>(four.at[2], four.at[3])};
#ifdef __CUDA_ARCH__
    *reinterpret_cast<uint2*>(to) = make_uint2(word[0], word[1]);
#else
    require_aligned(to, 8);
    std::memcpy(static_cast<void*>(to), word, 8);
#endif
  }
}

/// Eight elements in memory; T: float, Bf16 or Fp16.
template <class T>
struct Packed8 {
  static constexpr int parts = sizeof(T) / 2;
  Words128 words[parts];
};

template <class T>
VAECF_HD inline Packed8<T> load_packed8(const T* from) {
  Packed8<T> packed;
  for (int part = 0; part < packed.parts; ++part) packed.words[part] = load_words(from + 4 * part);
  return packed;
}

template <class T>
VAECF_HD inline Vec8 unpack8(const Packed8<T>& packed) {
  Vec8 vec;
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<T, float>) {
      vec.at[j] = std::bit_cast<float>(packed.words[0].word[j]);
      vec.at[4 + j] = std::bit_cast<float>(packed.words[1].word[j]);
    } else {
      unpack2<T>(packed.words[0].word[j], vec.at[2 * j], vec.at[2 * j + 1]);
    }
  }
  return vec;
}

template <class T>
VAECF_HD inline Vec8 load_vec8(const T* from) {
  return unpack8(load_packed8(from));
}

template <class T>
VAECF_HD inline void store_vec8(T* to, const Vec8& vec, Memory memory = Memory::global) {
  Words128 words;
  if constexpr (std::is_same_v<T, float>) {
    for (int half = 0; half < 2; ++half) {
      for (int j = 0; j < 4; ++j) words.word[j] = std::bit_cast<std::uint32_t>(vec.at[4 * half + j]);
      store_words(to + 4 * half, words, memory);
    }
  } else {
    for (int j = 0; j < 4; ++j) words.word[j] = pack2<T>(vec.at[2 * j], vec.at[2 * j + 1]);
    store_words(to, words, memory);
  }
}

template <class T>
VAECF_HD inline float to_float(T number) {
  if constexpr (std::is_same_v<T, float>) {
    return number;
  } else {
    float value = 0.0F;
    float other = 0.0F;
    unpack2<T>(number.bits, value, other);
    return value;
  }
}

template <class T>
VAECF_HD inline T from_float(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return T{static_cast<std::uint16_t>(pack2<T>(value, 0.0F))};
}

/// Computes x = act(x) for the eight elements from column `first`, and keeps those of the padding, from
/// column `columns` on, zero.
VAECF_HD inline void activate(Activation act, std::int64_t first, std::int64_t columns, Vec8& x) {
  if (act == Activation::tanh) {
    for (float& value : x.at) value = std::tanh(value);
  } else if (act == Activation::sigmoid) {
    for (int j = 0; j < 8; ++j) x.at[j] = first + j < columns ? math::sigmoid(x.at[j]) : 0.0F;
  }
}

/// Calls f(T{}) with the element type of `number`.
template <class F>
void dispatch_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    case DType::fp16:
      return f(Fp16{});
  }
}

}  // namespace vaecf::cuda
