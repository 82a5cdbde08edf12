// RecVAE's operations of reference_ops.hpp.
#include <cmath>
#include <vector>

#include "support/reference_ops.hpp"

namespace vaecf::testing::reference {

CompositeGradient composite_latent_backward(const HostBatch& batch, const Matrix& statistics,
                                            const Matrix& old_statistics, const double (&weights)[3],
                                            StepKey key, double beta, double gamma, const Matrix& d_z) {
  const std::int64_t latents = statistics.columns / 2;
  const Matrix eps = noise(batch, latents, key);
  const Matrix sample = sample_latent(batch, statistics, key);
  const auto density = [](double x, double mean, double variance) {
    return std::exp(-(x - mean) * (x - mean) / (2.0 * variance)) / std::sqrt(2.0 * M_PI * variance);
  };
  CompositeGradient result;
  result.d_statistics = Matrix(statistics.rows, statistics.columns);
  for (std::int64_t row = 0; row < statistics.rows; ++row) {
    const double weight = beta + gamma * batch.sum(row);
    for (std::int64_t k = 0; k < latents; ++k) {
      const double z = sample.at(row, k);
      const double logvar = statistics.at(row, latents + k);
      const double means[3] = {0.0, old_statistics.at(row, k), 0.0};
      const double variances[3] = {1.0, std::exp(old_statistics.at(row, latents + k)), std::exp(10.0)};
      double p = 0.0;
      double d_p = 0.0;
      for (int c = 0; c < 3; ++c) {
        const double part = weights[c] * density(z, means[c], variances[c]);
        p += part;
        d_p -= part * (z - means[c]) / variances[c];
      }
      const double kl = std::log(density(z, statistics.at(row, k), std::exp(logvar)) / p);
      result.kl += kl;
      result.weighted_kl += weight * kl;
      const double gradient = d_z.at(row, k) - weight * d_p / p;
      result.d_statistics.at(row, k) = gradient;
      result.d_statistics.at(row, latents + k) =
          gradient * eps.at(row, k) * std::exp(logvar / 2.0) / 2.0 - weight / 2.0;
    }
  }
  return result;
}

struct Normalized {
  Matrix x;
  std::vector<double> scale;  // of each row
};

static Normalized normalize_swish(const Matrix& s) {
  Normalized result{Matrix(s.rows, s.columns), {}};
  const auto n = static_cast<double>(s.columns);
  for (std::int64_t i = 0; i < s.rows; ++i) {
    double mean = 0.0;
    double square = 0.0;
    for (std::int64_t j = 0; j < s.columns; ++j) {
      const double y = s.at(i, j) / (1.0 + std::exp(-s.at(i, j)));
      result.x.at(i, j) = y;
      mean += y / n;
      square += y * y / n;
    }
    result.scale.push_back(1.0 / std::sqrt(square - mean * mean + 0.1));
    for (std::int64_t j = 0; j < s.columns; ++j) {
      result.x.at(i, j) = (result.x.at(i, j) - mean) * result.scale.back();
    }
  }
  return result;
}

Matrix swish_norm(const Matrix& s, const Matrix& gain, const Matrix& offset) {
  Matrix h = normalize_swish(s).x;
  for (std::int64_t i = 0; i < h.rows; ++i) {
    for (std::int64_t j = 0; j < h.columns; ++j) h.at(i, j) = h.at(i, j) * gain.at(0, j) + offset.at(0, j);
  }
  return h;
}

NormGradient swish_norm_backward(const Matrix& s, const Matrix& gain, const Matrix& d_h) {
  const Normalized normalized = normalize_swish(s);
  NormGradient result{Matrix(s.rows, s.columns), Matrix(1, s.columns), Matrix(1, s.columns)};
  const auto n = static_cast<double>(s.columns);
  for (std::int64_t i = 0; i < s.rows; ++i) {
    double mean = 0.0;
    double mean_x = 0.0;
    for (std::int64_t j = 0; j < s.columns; ++j) {
      const double x = normalized.x.at(i, j);
      result.d_gain.at(0, j) += d_h.at(i, j) * x;
      result.d_offset.at(0, j) += d_h.at(i, j);
      mean += d_h.at(i, j) * gain.at(0, j) / n;
      mean_x += d_h.at(i, j) * gain.at(0, j) * x / n;
    }
    for (std::int64_t j = 0; j < s.columns; ++j) {
      const double q = 1.0 / (1.0 + std::exp(-s.at(i, j)));
      const double d_y = normalized.scale[static_cast<std::size_t>(i)] *
                         (d_h.at(i, j) * gain.at(0, j) - mean - normalized.x.at(i, j) * mean_x);
      result.d_s.at(i, j) = d_y * (q + s.at(i, j) * q * (1.0 - q));
    }
  }
  return result;
}

}  // namespace vaecf::testing::reference
