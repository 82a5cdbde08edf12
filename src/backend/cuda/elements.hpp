#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/base/narrow.hpp>

#include <cstdint>

#include "platform.hpp"

/// Elements in groups of eight: what one thread of an elementwise kernel takes, in accesses of 128 bits.
namespace vaecf::cuda {

struct alignas(16) Floats4 {
  float x[4];
};
struct alignas(16) Bits8 {
  std::uint16_t x[8];
};
struct Floats8 {
  Floats4 low, high;
  VAECF_HD float& operator[](int i) { return i < 4 ? low.x[i] : high.x[i - 4]; }
  VAECF_HD float operator[](int i) const { return i < 4 ? low.x[i] : high.x[i - 4]; }
};

VAECF_HD inline Floats8 load8(const float* from) {
  const auto* parts = reinterpret_cast<const Floats4*>(from);
  return {parts[0], parts[1]};
}
VAECF_HD inline void store8(const Floats8& values, float* to) {
  auto* parts = reinterpret_cast<Floats4*>(to);
  parts[0] = values.low;
  parts[1] = values.high;
}

/// The bits of `value` as bf16 or fp16.
VAECF_HD inline std::uint16_t narrow_bits(Number number, float value) {
  return number == Number::bf16 ? to_bf16(value) : to_fp16(value);
}
VAECF_HD inline float from_narrow_bits(Number number, std::uint16_t bits) {
  return number == Number::bf16 ? from_bf16(bits) : from_fp16(bits);
}

VAECF_HD inline void store8_narrow(Number number, const Floats8& values, std::uint16_t* to) {
  Bits8 bits;
  for (int i = 0; i < 8; ++i) bits.x[i] = narrow_bits(number, values[i]);
  *reinterpret_cast<Bits8*>(to) = bits;
}
VAECF_HD inline Floats8 load8_narrow(Number number, const std::uint16_t* from) {
  const Bits8 bits = *reinterpret_cast<const Bits8*>(from);
  Floats8 values;
  for (int i = 0; i < 8; ++i) values[i] = from_narrow_bits(number, bits.x[i]);
  return values;
}

inline bool aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

}  // namespace vaecf::cuda
