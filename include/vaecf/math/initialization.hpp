#pragma once

#include <vaecf/math/philox.hpp>

#include <cmath>
#include <cstdint>

namespace vaecf::math {

/// Returns the bound of Xavier-uniform initialization (Glorot and Bengio, AISTATS 2010).
VAECF_HD inline float xavier_limit(std::int64_t fan_in, std::int64_t fan_out) {
  return static_cast<float>(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

/// Returns the initial weight at row-major index `index` of tensor `tensor`, uniform on [-limit, limit].
VAECF_HD inline float uniform_weight(std::uint64_t seed, std::uint32_t tensor, std::uint64_t index,
                                     float limit) {
  const std::uint32_t word =
      random_word(seed, RandomStream::initialization, static_cast<std::uint32_t>(index >> 32), tensor,
                  static_cast<std::uint32_t>(index));
  return limit * (2.0F * uniform01(word) - 1.0F);
}

/// Returns uniform_weight() with limit = xavier_limit().
VAECF_HD inline float initial_weight(std::uint64_t seed, std::uint32_t tensor, std::uint64_t index,
                                     std::int64_t fan_in, std::int64_t fan_out) {
  return uniform_weight(seed, tensor, index, xavier_limit(fan_in, fan_out));
}

/// Returns the element at `index` of tensor `tensor` of N(0, 1). Attempt a uses purpose + 256 a as the last
/// counter word, so that every element has a random sequence of its own.
VAECF_HD inline float normal_element(std::uint64_t seed, std::uint32_t tensor, std::uint64_t index,
                                     std::uint32_t attempt = 0) {
  const auto low = static_cast<std::uint32_t>(index);
  const auto high = static_cast<std::uint32_t>(index >> 32);
  const std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const std::uint32_t last = static_cast<std::uint32_t>(RandomStream::initialization) + 256U * attempt;
  const std::uint32_t counter[4] = {low / 4, tensor, high, last};
  return normal_from_block(philox4x32_10(counter, key), low % 4);
}

/// Returns the element at `index` of tensor `tensor`, drawn from N(0, sd^2) truncated to [-2 sd, 2 sd] by
/// rejection.
VAECF_HD inline float truncated_normal(std::uint64_t seed, std::uint32_t tensor, std::uint64_t index,
                                       float sd) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    const float normal = normal_element(seed, tensor, index, attempt);
    if (std::abs(normal) <= 2.0F) return sd * normal;
  }
}

}  // namespace vaecf::math
