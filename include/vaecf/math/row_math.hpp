#pragma once

#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/lanes.hpp>

#include <cmath>
#include <cstdint>

/// Formulas about one user's row, written once over Lanes: plain loops on the CPU, a block on the GPU.
/// Rows are given as callables i -> float, so that storage (stride, bf16, bias apart) stays the caller's.
namespace vaecf::math {

/// What softmax needs to know of a row of logits.
struct SoftmaxRow {
  float maximum = 0.0F;
  float sum = 0.0F;  ///< sum_i exp(logit_i - maximum)

  VAECF_HD float log_sum_exp() const { return maximum + std::log(sum); }
  VAECF_HD float probability(float logit) const { return std::exp(logit - maximum) / sum; }
};

template <Lanes L, class Logit>
VAECF_HD SoftmaxRow softmax_row(L& lanes, std::int64_t n, Logit&& logit) {
  const float maximum = lanes.max(n, logit);
  const float sum = lanes.sum(n, [&](std::int64_t i) { return std::exp(logit(i) - maximum); });
  return {maximum, sum};
}

/// log(sum_i exp(logit_i)); -infinity for an empty row.
template <Lanes L, class Logit>
VAECF_HD float log_sum_exp(L& lanes, std::int64_t n, Logit&& logit) {
  return softmax_row(lanes, n, logit).log_sum_exp();
}

/// - sum over the user's `count` items of log_softmax(logits)_i, in fp64. Liang et al. 2018, eq. 2.
template <Lanes L, class Logit>
VAECF_HD double multinomial_nll(L& lanes, const SoftmaxRow& row, const std::int32_t* items,
                                std::int64_t count, Logit&& logit) {
  const double log_sum = std::log(static_cast<double>(row.sum));
  return lanes.sum(count, [&](std::int64_t k) {
    return log_sum - (static_cast<double>(logit(items[k])) - static_cast<double>(row.maximum));
  });
}

/// gradient_i = count * softmax_i - x_i, x the 0/1 row of the user's `count` items. `gradient` may be where
/// `logit` reads.
template <Lanes L, class Logit>
VAECF_HD void multinomial_gradient(L& lanes, const SoftmaxRow& row, std::int64_t n, const std::int32_t* items,
                                   std::int64_t count, Logit&& logit, float* gradient) {
  const float factor = n > 0 ? static_cast<float>(count) / row.sum : 0.0F;
  lanes.each(n, [&](std::int64_t i) { gradient[i] = factor * std::exp(logit(i) - row.maximum); });
  lanes.each(count, [&](std::int64_t k) { gradient[items[k]] -= 1.0F; });
}

/// KL(q || N(0, 1)) of one user, statistics = [mu | logvar] of 2 * latents numbers, in fp64.
template <Lanes L, class Statistic>
VAECF_HD double kl_row(L& lanes, std::int64_t latents, Statistic&& statistics) {
  return lanes.sum(latents, [&](std::int64_t k) {
    return kl_term(static_cast<double>(statistics(k)), static_cast<double>(statistics(latents + k)));
  });
}

/// d_statistics = [d_mu | d_logvar] of one user from d_z, with the gradient of beta * KL added; all
/// callables take a latent's index, `d_statistics` is 2 * latents numbers.
template <Lanes L, class Statistic, class Noise, class Gradient>
VAECF_HD void latent_backward_row(L& lanes, std::int64_t latents, float beta, Statistic&& statistics,
                                  Noise&& noise, Gradient&& d_z, float* d_statistics) {
  lanes.each(latents, [&](std::int64_t k) {
    const float gradient = d_z(k);
    d_statistics[k] = latent_gradient_mu(gradient, beta, static_cast<float>(statistics(k)));
    d_statistics[latents + k] =
        latent_gradient_logvar(gradient, noise(k), beta, static_cast<float>(statistics(latents + k)));
  });
}

/// Whether `item` stands before `target`: higher score first, then lower item. A NaN on either side counts
/// against the target, so that a broken model never looks like a good one.
VAECF_HD inline bool beats(float score, std::int64_t item, float target_score, std::int64_t target) {
  return !(score < target_score) && (score != target_score || item < target);
}

/// Rank from 0 of `target` among the n items without the `masked` ones (ascending): how many others beat it.
/// A target that is itself masked gets n.
template <Lanes L, class Score>
VAECF_HD std::int32_t rank_of_target(L& lanes, std::int64_t n, const std::int32_t* masked, std::int64_t count,
                                     std::int32_t target, Score&& score) {
  const float target_score = score(target);
  const auto counts = [&](std::int64_t item) {
    return std::int32_t{beats(score(item), item, target_score, target)};
  };
  const std::int32_t all = lanes.sum(n, counts);
  const std::int32_t hidden = lanes.sum(count, [&](std::int64_t k) { return counts(masked[k]); });
  const std::int32_t itself =
      lanes.sum(count, [&](std::int64_t k) { return std::int32_t{masked[k] == target}; });
  // A NaN beats even itself.
  return itself > 0 ? static_cast<std::int32_t>(n) : all - hidden - counts(target);
}

}  // namespace vaecf::math
