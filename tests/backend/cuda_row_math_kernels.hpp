#pragma once

#include <cstdint>

/// The formulas of math/row_math.hpp on the device: one block a row, memory of the device, started and not
/// waited for.
namespace vaecf::cuda_test {

struct Losses {
  float maximum, sum;
  double nll, kl;
};

/// Of one row of n scores, with `count` items; the KL takes its first half for means. gradient (n).
void start_loss(const float* scores, std::int64_t n, const std::int32_t* items, std::int64_t count,
                Losses* losses, float* gradient);

/// statistics and d_statistics (2 latents), noise and d_z (latents).
void start_latent_backward(const float* statistics, std::int64_t latents, float beta, const float* noise,
                           const float* d_z, float* d_statistics);

/// Each item as the target of a block of its own; ranks (n).
void start_ranks(const float* scores, std::int64_t n, const std::int32_t* masked, std::int64_t count,
                 std::int32_t* ranks);

}  // namespace vaecf::cuda_test
