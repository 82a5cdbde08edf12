#pragma once

#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <cstdint>

namespace vaecf::math {

/// The independent random streams. The value is the last counter word, so streams never share a counter.
enum class RandomStream : std::uint32_t {
  dropout = 1,         ///< user = row in /train, index = item
  latent_noise = 2,    ///< user = row in /train, index = latent dimension
  initialization = 3,  ///< user = tensor index, (step, index) = high and low word of the row-major index
  permutation = 4,     ///< user = virtual shard, step = epoch, index = position of the random word
  history = 5,         ///< user = row in /train, index = 0
};

/// Four random words: the output for one counter.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; Random123).
VAECF_HD constexpr PhiloxBlock philox4x32_10(const std::uint32_t (&counter)[4],
                                             const std::uint32_t (&key)[2]) {
  std::uint32_t c0 = counter[0];
  std::uint32_t c1 = counter[1];
  std::uint32_t c2 = counter[2];
  std::uint32_t c3 = counter[3];
  std::uint32_t k0 = key[0];
  std::uint32_t k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// Returns the random words with indices 4 * block .. 4 * block + 3. Stateless: the result does not depend on
/// device, number of ranks or resumes.
VAECF_HD constexpr PhiloxBlock random_block(std::uint64_t seed, RandomStream stream, std::uint32_t step,
                                            std::uint32_t user, std::uint32_t block) {
  const std::uint32_t counter[4] = {block, user, step, static_cast<std::uint32_t>(stream)};
  const std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  return philox4x32_10(counter, key);
}

/// Returns the random word with index `index`. Stateless like random_block().
VAECF_HD constexpr std::uint32_t random_word(std::uint64_t seed, RandomStream stream, std::uint32_t step,
                                             std::uint32_t user, std::uint32_t index) {
  const PhiloxBlock block = random_block(seed, stream, step, user, index / 4);
  // Not word[index % 4]: GPUs keep indexed words in memory.
  const std::uint32_t low = index % 2 == 0 ? block.word[0] : block.word[1];
  const std::uint32_t high = index % 2 == 0 ? block.word[2] : block.word[3];
  return index % 4 < 2 ? low : high;
}

/// Returns a value uniform on (0, 1]: (word + 1/2) / 2^32 rounded to fp32, at least 2^-33.
VAECF_HD constexpr float uniform01(std::uint32_t word) {
  return static_cast<float>(word) * 0x1p-32F + 0x1p-33F;
}

/// Returns keep_prob * 2^32: words below it are kept. 64 bits, so that keep_prob = 1 keeps every word.
VAECF_HD constexpr std::uint64_t dropout_threshold(float keep_prob) {
  return static_cast<std::uint64_t>(static_cast<double>(keep_prob) * 0x1p32);
}

/// Returns whether item `item` of user `user` is kept by the dropout of step `step`.
VAECF_HD constexpr bool dropout_keeps_item(std::uint64_t seed, std::uint32_t step, std::uint32_t user,
                                           std::uint32_t item, std::uint64_t threshold) {
  return random_word(seed, RandomStream::dropout, step, user, item) < threshold;
}

/// Returns whether the interactions of user `user` are kept in step `step` (history dropout).
VAECF_HD constexpr bool dropout_keeps_history(std::uint64_t seed, std::uint32_t step, std::uint32_t user,
                                              std::uint64_t threshold) {
  return random_word(seed, RandomStream::history, step, user, 0) < threshold;
}

/// Two independent N(0, 1) values.
struct NormalPair {
  float first;   ///< radius * cos(angle)
  float second;  ///< radius * sin(angle)
};

/// Returns two independent N(0, 1) values from two random words (Box-Muller).
VAECF_HD inline NormalPair normal_pair(std::uint32_t word0, std::uint32_t word1) {
  const float radius = std::sqrt(-2.0F * std::log(uniform01(word0)));
  const float angle = 6.28318530717958647692F * uniform01(word1);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Returns the N(0, 1) value at index `index` of a block: words (0, 1) give indices 0 and 1, words (2, 3)
/// indices 2 and 3.
VAECF_HD inline float normal_from_block(const PhiloxBlock& block, std::uint32_t index) {
  const NormalPair pair =
      index < 2 ? normal_pair(block.word[0], block.word[1]) : normal_pair(block.word[2], block.word[3]);
  return index % 2 == 0 ? pair.first : pair.second;
}

/// Writes the noise eps of latent dimensions 4 * block .. 4 * block + 3 of user `user` in step `step`.
VAECF_HD inline void latent_noise_block(std::uint64_t seed, std::uint32_t step, std::uint32_t user,
                                        std::uint32_t block, float (&noise)[4]) {
  const PhiloxBlock words = random_block(seed, RandomStream::latent_noise, step, user, block);
  const NormalPair low = normal_pair(words.word[0], words.word[1]);
  const NormalPair high = normal_pair(words.word[2], words.word[3]);
  noise[0] = low.first;
  noise[1] = low.second;
  noise[2] = high.first;
  noise[3] = high.second;
}

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
