#pragma once

#include <vaecf/math/loss.hpp>

#include <cmath>
#include <limits>
#include <type_traits>

#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/shared_names.hpp"

/// Exponentials and maxima of logits.
namespace vaecf::cuda {

using SoftmaxPart = math::SoftmaxPart<float>;

/// Returns 2^x by one instruction: with a relative error of 2^-22, and 0 instead of a subnormal number.
VAECF_HD inline float power_of_two(float x) {
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  const float power = std::exp2(x);
  return power < std::numeric_limits<float>::min() ? 0.0F : power;
#endif
}

/// factor * e^(logit - maximum) for the logits of one row. For logits of type Bf16 or Fp16, whose own error
/// is at least |logit| 2^-12, by two instructions: with a relative error of 2^-22 + |logit - maximum| 2^-23,
/// and one of (|maximum| + |log factor|) 2^-23 that is the same for the whole row.
template <class T>
class RowExponential {
 public:
  explicit VAECF_HD RowExponential(float maximum, float factor = 1.0F) {
    if constexpr (std::is_same_v<T, float>) {
      maximum_ = maximum;
      factor_ = factor;
    } else {
      shift_ = math::exponent_shift(maximum, factor);
    }
  }

  VAECF_HD float operator()(float logit) const {
    if constexpr (std::is_same_v<T, float>) {
      return factor_ * std::exp(logit - maximum_);
    } else {
      return power_of_two(std::fma(logit, math::log2_e, shift_));
    }
  }

 private:
  float maximum_ = 0.0F;
  float factor_ = 1.0F;
  float shift_ = 0.0F;
};

/// Returns the maximum of eight values, of which NaN do not count; the lowest finite number if there is none.
template <class T>
VAECF_HD inline float max_of(const Packed8<T>& values) {
#ifdef __CUDA_ARCH__
  if constexpr (!std::is_same_v<T, float>) {
    using Pair = std::conditional_t<std::is_same_v<T, Bf16>, __nv_bfloat162, __half2>;
    const auto pair = [&](int i) { return *reinterpret_cast<const Pair*>(&values.words[0].word[i]); };
    const Pair top = __hmax2(__hmax2(pair(0), pair(1)), __hmax2(pair(2), pair(3)));
    return std::fmax(SoftmaxPart().maximum, std::fmax(__low2float(top), __high2float(top)));
  }
#endif
  float top = SoftmaxPart().maximum;
  const Vec8 vec = unpack8(values);
  for (const float value : vec.at) top = std::fmax(top, value);
  return top;
}

}  // namespace vaecf::cuda
