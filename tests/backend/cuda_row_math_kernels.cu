#include "cuda_row_math_kernels.hpp"

#include <vaecf/math/row_math.hpp>

#include "backend/cuda/block_lanes.cuh"

namespace vaecf::cuda_test {
namespace {

constexpr int threads = 256;
using Lanes = cuda::BlockLanes<threads>;
static_assert(math::Lanes<Lanes>);

__global__ void loss_kernel(const float* scores, std::int64_t n, const std::int32_t* items,
                            std::int64_t count, Losses* losses, float* gradient) {
  __shared__ Lanes::Shared shared;
  Lanes lanes(shared);
  const auto logit = [scores](std::int64_t i) { return scores[i]; };
  const math::SoftmaxRow row = math::softmax_row(lanes, n, logit);
  const double nll = math::multinomial_nll(lanes, row, items, count, logit);
  math::multinomial_gradient(lanes, row, n, items, count, logit, gradient);
  const double kl = math::kl_row(lanes, n / 2, logit);
  if (threadIdx.x == 0) *losses = {row.maximum, row.sum, nll, kl};
}

__global__ void latent_kernel(const float* statistics, std::int64_t latents, float beta, const float* noise,
                              const float* d_z, float* d_statistics) {
  __shared__ Lanes::Shared shared;
  Lanes lanes(shared);
  math::latent_backward_row(
      lanes, latents, beta, [=](std::int64_t k) { return statistics[k]; },
      [=](std::int64_t k) { return noise[k]; }, [=](std::int64_t k) { return d_z[k]; }, d_statistics);
}

__global__ void rank_kernel(const float* scores, std::int64_t n, const std::int32_t* masked,
                            std::int64_t count, std::int32_t* ranks) {
  __shared__ Lanes::Shared shared;
  Lanes lanes(shared);
  const auto target = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t rank =
      math::rank_of_target(lanes, n, masked, count, target, [scores](std::int64_t i) { return scores[i]; });
  if (threadIdx.x == 0) ranks[target] = rank;
}

}  // namespace

void start_loss(const float* scores, std::int64_t n, const std::int32_t* items, std::int64_t count,
                Losses* losses, float* gradient) {
  loss_kernel<<<1, threads>>>(scores, n, items, count, losses, gradient);
}

void start_latent_backward(const float* statistics, std::int64_t latents, float beta, const float* noise,
                           const float* d_z, float* d_statistics) {
  latent_kernel<<<1, threads>>>(statistics, latents, beta, noise, d_z, d_statistics);
}

void start_ranks(const float* scores, std::int64_t n, const std::int32_t* masked, std::int64_t count,
                 std::int32_t* ranks) {
  rank_kernel<<<static_cast<unsigned>(n), threads>>>(scores, n, masked, count, ranks);
}

}  // namespace vaecf::cuda_test
