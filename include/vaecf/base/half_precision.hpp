#pragma once

#include <vaecf/base/host_device.hpp>

#include <bit>
#include <cstdint>

/// Conversions between fp32 and the 16-bit formats bf16 and fp16. Host and device results are bitwise
/// identical. Arithmetic is done in fp32.
namespace vaecf {

/// Returns `value` as bf16 bits, rounded to nearest even. Overflow becomes infinity, NaN a quiet NaN.
VAECF_HD inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded);
}

/// Returns the fp32 value of bf16 `bits`; exact.
VAECF_HD inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Returns `value` rounded to bf16.
VAECF_HD inline float round_to_bf16(float value) {
  return from_bf16(to_bf16(value));
}

/// Returns `value` as fp16 (IEEE binary16) bits, rounded to nearest even, subnormals included. Overflow
/// becomes infinity, NaN a quiet NaN.
VAECF_HD inline std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65520 and above
  if (magnitude < 0x38800000U) {
    // Below 2^-14: adding 1/2 leaves the correctly rounded bits of the subnormal at the end of the mantissa.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U) - 0x38000000U;
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

/// Returns the fp32 value of fp16 (IEEE binary16) `bits`; exact.
VAECF_HD inline float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  const std::uint32_t wide = exponent == 31 ? 0xFFU : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

/// Element types of 16-bit arrays.
struct Bf16 {
  std::uint16_t bits = 0;
  VAECF_HD static Bf16 from(float value) { return {to_bf16(value)}; }
  VAECF_HD float value() const { return from_bf16(bits); }
  bool operator==(const Bf16&) const = default;
};
struct Fp16 {
  std::uint16_t bits = 0;
  VAECF_HD static Fp16 from(float value) { return {to_fp16(value)}; }
  VAECF_HD float value() const { return from_fp16(bits); }
  bool operator==(const Fp16&) const = default;
};

}  // namespace vaecf
