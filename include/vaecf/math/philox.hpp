#pragma once

#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <cstdint>

namespace vaecf::math {

/// What a random word is for: the last counter word, so that purposes never share a number.
enum class RandomPurpose : std::uint32_t {
  dropout = 1,         ///< user = row in /train, index = item
  latent_noise = 2,    ///< user = row in /train, index = latent dimension
  initialisation = 3,  ///< user = tensor number, (step, index) = high and low word of the row-major index
  permutation = 4,     ///< user = virtual shard, step = epoch, index = draw
  history = 5,         ///< user = row in /train, index = 0
};

/// Four random words, the output for one counter.
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

/// The four words of indices 4 * block .. 4 * block + 3. Without state: the same on any device, for any
/// number of ranks and after a resume.
VAECF_HD constexpr PhiloxBlock random_block(std::uint64_t seed, RandomPurpose purpose, std::uint32_t step,
                                            std::uint32_t user, std::uint32_t block) {
  const std::uint32_t counter[4] = {block, user, step, static_cast<std::uint32_t>(purpose)};
  const std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  return philox4x32_10(counter, key);
}

VAECF_HD constexpr std::uint32_t random_word(std::uint64_t seed, RandomPurpose purpose, std::uint32_t step,
                                             std::uint32_t user, std::uint32_t index) {
  return random_block(seed, purpose, step, user, index / 4).word[index % 4];
}

/// Uniform on (0, 1]: (word + 1/2) / 2^32 rounded to fp32, at least 2^-33.
VAECF_HD constexpr float uniform01(std::uint32_t word) {
  return static_cast<float>(word) * 0x1p-32F + 0x1p-33F;
}

/// Words below the threshold are kept: keep * 2^32, in 64 bits so that keep = 1 keeps every word.
VAECF_HD constexpr std::uint64_t dropout_threshold(float keep) {
  return static_cast<std::uint64_t>(static_cast<double>(keep) * 0x1p32);
}

/// Whether item `item` of user `user` survives the dropout of step `step`.
VAECF_HD constexpr bool dropout_keeps_item(std::uint64_t seed, std::uint32_t step, std::uint32_t user,
                                           std::uint32_t item, std::uint64_t threshold) {
  return random_word(seed, RandomPurpose::dropout, step, user, item) < threshold;
}

/// Whether user `user` is seen with any of his items in step `step`.
VAECF_HD constexpr bool dropout_keeps_history(std::uint64_t seed, std::uint32_t step, std::uint32_t user,
                                              std::uint64_t threshold) {
  return random_word(seed, RandomPurpose::history, step, user, 0) < threshold;
}

struct NormalPair {
  float first;   ///< the cosine
  float second;  ///< the sine
};

/// Two independent N(0, 1) from two words (Box-Muller).
VAECF_HD inline NormalPair normal_pair(std::uint32_t word0, std::uint32_t word1) {
  const float radius = std::sqrt(-2.0F * std::log(uniform01(word0)));
  const float angle = 6.28318530717958647692F * uniform01(word1);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// The N(0, 1) of word `lane` of a block: words (0, 1) give lanes 0, 1 and words (2, 3) lanes 2, 3.
VAECF_HD inline float normal_of_block(const PhiloxBlock& block, std::uint32_t lane) {
  const NormalPair pair =
      lane < 2 ? normal_pair(block.word[0], block.word[1]) : normal_pair(block.word[2], block.word[3]);
  return lane % 2 == 0 ? pair.first : pair.second;
}

/// The eps of latent dimensions 4 * block .. 4 * block + 3 of user `user` in step `step`.
VAECF_HD inline void latent_noise_block(std::uint64_t seed, std::uint32_t step, std::uint32_t user,
                                        std::uint32_t block, float (&noise)[4]) {
  const PhiloxBlock words = random_block(seed, RandomPurpose::latent_noise, step, user, block);
  const NormalPair low = normal_pair(words.word[0], words.word[1]);
  const NormalPair high = normal_pair(words.word[2], words.word[3]);
  noise[0] = low.first;
  noise[1] = low.second;
  noise[2] = high.first;
  noise[3] = high.second;
}

}  // namespace vaecf::math
