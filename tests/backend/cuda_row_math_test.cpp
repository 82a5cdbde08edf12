// The formulas of math/row_math.hpp on the device, one block a row, against plain fp64 loops on the host.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "cuda_row_math_kernels.hpp"
#include "cuda_support.hpp"

namespace vaecf::cuda_test {
namespace {

constexpr std::int64_t sizes[] = {0, 1, 31, 32, 33, 257, 20108};

struct Row {
  std::vector<float> scores;        // (n)
  std::vector<std::int32_t> items;  // ascending, a tenth of all and at least one where n > 0
};

Row random_row(std::int64_t n, bool with_ties) {
  std::mt19937 random(static_cast<unsigned>(n) + 7U);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  Row row;
  for (std::int64_t i = 0; i < n; ++i) {
    const float score = normal(random);
    row.scores.push_back(with_ties ? std::round(4.0F * score) / 4.0F : score);
    if (i % 10 == 0) row.items.push_back(static_cast<std::int32_t>(i));
  }
  return row;
}

class CudaRowMath : public GpuTest {};

TEST_F(CudaRowMath, LossAndGradientMatchDoublePrecision) {
  for (const std::int64_t n : sizes) {
    SCOPED_TRACE(n);
    const Row row = random_row(n, false);
    const auto count = static_cast<std::int64_t>(row.items.size());
    DeviceVector<float> scores(row.scores), gradient(row.scores.size());
    DeviceVector<std::int32_t> items(row.items);
    DeviceVector<Losses> losses(1);
    start_loss(scores.data(), n, items.data(), count, losses.data(), gradient.data());
    const Losses found = losses.host().front();
    const std::vector<float> found_gradient = gradient.host();

    double maximum = -INFINITY, sum = 0.0, nll = 0.0, kl = 0.0;
    for (const float score : row.scores) maximum = std::max(maximum, static_cast<double>(score));
    for (const float score : row.scores) sum += std::exp(score - maximum);
    for (const std::int32_t item : row.items) nll += std::log(sum) - (row.scores[item] - maximum);
    for (std::int64_t k = 0; k < n / 2; ++k) {
      const double mu = row.scores[k], logvar = row.scores[n / 2 + k];
      kl += 0.5 * (std::exp(logvar) + mu * mu - 1.0 - logvar);
    }
    EXPECT_EQ(found.maximum, static_cast<float>(maximum));
    EXPECT_NEAR(found.sum, sum, 1e-5 * sum);
    EXPECT_NEAR(found.nll, nll, 1e-5 * std::abs(nll));
    EXPECT_NEAR(found.kl, kl, 1e-9 * std::abs(kl));
    for (std::int64_t i = 0; i < n; ++i) {
      const double expected =
          static_cast<double>(count) * std::exp(row.scores[i] - maximum) / sum - (i % 10 == 0 ? 1.0 : 0.0);
      ASSERT_NEAR(found_gradient[i], expected, 1e-5 * (1.0 + std::abs(expected))) << "item " << i;
    }
  }
}

TEST_F(CudaRowMath, LatentGradientMatchesDoublePrecision) {
  for (const std::int64_t latents : {0, 1, 31, 32, 33, 200, 257}) {
    SCOPED_TRACE(latents);
    const Row row = random_row(4 * latents, false);
    const auto part = [&](std::int64_t from, std::int64_t length) {
      return std::vector<float>(row.scores.begin() + from, row.scores.begin() + from + length);
    };
    const std::vector<float> statistics = part(0, 2 * latents), noise = part(2 * latents, latents),
                             d_z = part(3 * latents, latents);
    DeviceVector<float> device_statistics(statistics), device_noise(noise), device_d_z(d_z);
    DeviceVector<float> result(statistics.size());
    const float beta = 0.2F;
    start_latent_backward(device_statistics.data(), latents, beta, device_noise.data(), device_d_z.data(),
                          result.data());
    const std::vector<float> found = result.host();
    for (std::int64_t k = 0; k < latents; ++k) {
      const double mu = statistics[k], logvar = statistics[latents + k];
      const double d_mu = d_z[k] + static_cast<double>(beta) * mu;
      const double from_z = d_z[k] * static_cast<double>(noise[k]) * 0.5 * std::exp(0.5 * logvar);
      const double from_kl = static_cast<double>(beta) * 0.5 * (std::exp(logvar) - 1.0);
      ASSERT_NEAR(found[k], d_mu, 1e-6 * (1.0 + std::abs(d_mu)));
      ASSERT_NEAR(found[latents + k], from_z + from_kl, 1e-5 * (1.0 + std::abs(from_z) + std::abs(from_kl)));
    }
  }
}

TEST_F(CudaRowMath, RanksMatchASort) {
  for (const std::int64_t n : {1, 31, 32, 33, 257, 1000}) {
    SCOPED_TRACE(n);
    const Row row = random_row(n, true);
    DeviceVector<float> scores(row.scores);
    DeviceVector<std::int32_t> masked(row.items), ranks(row.scores.size());
    start_ranks(scores.data(), n, masked.data(), static_cast<std::int64_t>(row.items.size()), ranks.data());
    const std::vector<std::int32_t> found = ranks.host();

    std::vector<std::int32_t> order;
    for (std::int32_t i = 0; i < n; ++i) {
      if (i % 10 != 0) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return row.scores[a] > row.scores[b]; });
    std::vector<std::int32_t> expected(row.scores.size(), static_cast<std::int32_t>(n));
    for (std::size_t k = 0; k < order.size(); ++k) expected[order[k]] = static_cast<std::int32_t>(k);
    EXPECT_EQ(found, expected);
  }
}

TEST_F(CudaRowMath, TheSameRowGivesTheSameBits) {
  const Row row = random_row(20108, false);
  DeviceVector<float> scores(row.scores), gradient(row.scores.size());
  DeviceVector<std::int32_t> items(row.items);
  std::vector<double> nll;
  for (int run = 0; run < 8; ++run) {
    DeviceVector<Losses> losses(1);
    start_loss(scores.data(), 20108, items.data(), static_cast<std::int64_t>(row.items.size()), losses.data(),
               gradient.data());
    nll.push_back(losses.host().front().nll);
  }
  EXPECT_EQ(nll, std::vector<double>(8, nll.front()));
}

}  // namespace
}  // namespace vaecf::cuda_test
