#include "support/reference_ops.hpp"

#include <vaecf/math/random.hpp>

#include <algorithm>
#include <cmath>

namespace vaecf::testing {

double HostBatch::sum(std::int64_t row) const {
  double sum = 0.0;
  for (std::int64_t k = 0; k < rows.view().row_size(row); ++k)
    sum += rows.view().sparse_row(row).value(static_cast<std::size_t>(k));
  return sum;
}

bool HostBatch::holds(std::int64_t row, std::int32_t item) const {
  const auto held = rows.view().row(row);
  return std::binary_search(held.begin(), held.end(), item);
}

namespace reference {
namespace {

using device::Activation;

// a (M, K) * b (K, N)
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    double* out = c.values.data() + i * c.columns;
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double factor = a.at(i, k);
      if (factor == 0.0) continue;
      const double* row = b.values.data() + k * b.columns;
      for (std::int64_t j = 0; j < b.columns; ++j) out[j] += factor * row[j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) t.at(j, i) = a.at(i, j);
  }
  return t;
}

Matrix column_sums(const Matrix& a) {
  Matrix sums(1, a.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) sums.at(0, j) += a.at(i, j);
  }
  return sums;
}

Matrix before_activation(Activation act, const Matrix& output, const Matrix& d_output) {
  Matrix d = d_output;
  for (std::size_t i = 0; i < d.values.size(); ++i) {
    const double y = output.values[i];
    if (act == Activation::tanh) d.values[i] *= 1.0 - y * y;
    if (act == Activation::sigmoid) d.values[i] *= y * (1.0 - y);
  }
  return d;
}

double activate(Activation act, double x) {
  if (act == Activation::sigmoid) return 1.0 / (1.0 + std::exp(-x));
  return act == Activation::tanh ? std::tanh(x) : x;
}

}  // namespace

namespace {

/// Calls use(row, item, value) for each nonzero element of scaled_input().
template <class Use>
void each_input(const HostBatch& batch, device::InputScaling scaling, StepKey key, Use&& use) {
  const auto kept_share = [](std::uint32_t word, float share) {
    return static_cast<double>(word) < static_cast<double>(share) * 4294967296.0;
  };
  for (std::int64_t row = 0; row < batch.size(); ++row) {
    const SparseRow items = batch.rows.view().sparse_row(row);
    const std::uint32_t user = batch.users[static_cast<std::size_t>(row)];
    const std::uint32_t all_or_nothing =
        math::random_word(key.seed, math::RandomStream::history, key.step, user, 0);
    if (!kept_share(all_or_nothing, scaling.history_keep_prob)) continue;
    double squares = 0.0;
    for (std::size_t k = 0; k < items.columns.size(); ++k) squares += std::pow(items.value(k), 2.0);
    const double norm = scaling.normalized ? std::sqrt(squares) : 1.0;
    for (std::size_t k = 0; k < items.columns.size(); ++k) {
      const std::int32_t item = items.columns[k];
      const std::uint32_t word = math::random_word(key.seed, math::RandomStream::dropout, key.step, user,
                                                   static_cast<std::uint32_t>(item));
      if (kept_share(word, scaling.item_keep_prob))
        use(row, item,
            static_cast<double>(items.value(k)) / (static_cast<double>(scaling.item_keep_prob) * norm));
    }
  }
}

/// Adds `factor` times row `from` of `b` to row `to` of `a`.
void add_row(Matrix& a, std::int64_t to, double factor, const Matrix& b, std::int64_t from) {
  for (std::int64_t j = 0; j < a.columns; ++j) a.at(to, j) += factor * b.at(from, j);
}

void activate_rows(Matrix& output, const Matrix& bias, Activation act) {
  for (std::int64_t i = 0; i < output.rows; ++i) {
    for (std::int64_t j = 0; j < output.columns; ++j)
      output.at(i, j) = activate(act, output.at(i, j) + bias.at(0, j));
  }
}

}  // namespace

Matrix scaled_input(const HostBatch& batch, device::InputScaling scaling, StepKey key) {
  Matrix s(batch.size(), batch.items);
  each_input(batch, scaling, key,
             [&](std::int64_t row, std::int64_t item, double value) { s.at(row, item) = value; });
  return s;
}

Matrix linear(const Matrix& input, const Matrix& weight, const Matrix& bias, Activation act) {
  Matrix output = product(input, weight);
  activate_rows(output, bias, act);
  return output;
}

Matrix sparse_linear(const HostBatch& batch, const Matrix& weight, const Matrix& bias, Activation act,
                     device::InputScaling scaling, StepKey key) {
  return sparse_linear(batch, weight, bias, act, scaling, key, {}, {});
}

Matrix sparse_linear(const HostBatch& batch, const Matrix& weight, const Matrix& bias, Activation act,
                     device::InputScaling scaling, StepKey key, const HostBatch& side, const Matrix& table) {
  Matrix output(batch.size(), weight.columns);
  each_input(batch, scaling, key, [&](std::int64_t row, std::int64_t item, double value) {
    add_row(output, row, value, weight, item);
  });
  each_input(side, 1.0F, {}, [&](std::int64_t row, std::int64_t column, double value) {
    add_row(output, row, value, table, column);
  });
  activate_rows(output, bias, act);
  return output;
}

Matrix side_features_backward(const HostBatch& side, const Matrix& d_before) {
  Matrix d_table(side.items, d_before.columns);
  each_input(side, 1.0F, {}, [&](std::int64_t row, std::int64_t column, double value) {
    add_row(d_table, column, value, d_before, row);
  });
  return d_table;
}

Matrix noise(const HostBatch& batch, std::int64_t latents, StepKey key) {
  Matrix eps(batch.size(), latents);
  for (std::int64_t row = 0; row < eps.rows; ++row) {
    for (std::int64_t k = 0; k < latents; ++k) {
      float block[4];
      math::latent_noise_block(key.seed, key.step, batch.users[static_cast<std::size_t>(row)],
                               static_cast<std::uint32_t>(k / 4), block);
      eps.at(row, k) = block[k % 4];
    }
  }
  return eps;
}

Matrix sample_latent(const HostBatch& batch, const Matrix& statistics, StepKey key) {
  const std::int64_t latents = statistics.columns / 2;
  Matrix z = noise(batch, latents, key);
  for (std::int64_t row = 0; row < z.rows; ++row) {
    for (std::int64_t k = 0; k < latents; ++k) {
      z.at(row, k) = statistics.at(row, k) + z.at(row, k) * std::exp(statistics.at(row, latents + k) / 2.0);
    }
  }
  return z;
}

static void add_gradients(const Matrix& hidden, const Matrix& weight, const Matrix& d_logits,
                          LayerGradient& result) {
  result.d_weight = product(transposed(hidden), d_logits);
  result.d_bias = column_sums(d_logits);
  result.d_input = product(d_logits, transposed(weight));
}

LayerGradient softmax_layer(const Matrix& hidden, const HostBatch& batch, const Matrix& weight,
                            const Matrix& bias) {
  LayerGradient result;
  Matrix d_logits = linear(hidden, weight, bias, Activation::identity);
  for (std::int64_t row = 0; row < d_logits.rows; ++row) {
    double* logits = d_logits.values.data() + row * d_logits.columns;
    const double top = *std::max_element(logits, logits + d_logits.columns);
    double sum = 0.0;
    for (std::int64_t i = 0; i < d_logits.columns; ++i) sum += std::exp(logits[i] - top);
    const SparseRow items = batch.rows.view().sparse_row(row);
    for (std::size_t k = 0; k < items.columns.size(); ++k)
      result.nll += static_cast<double>(items.value(k)) * (std::log(sum) + (top - logits[items.columns[k]]));
    const double all = batch.sum(row);
    for (std::int64_t i = 0; i < d_logits.columns; ++i) logits[i] = all * std::exp(logits[i] - top) / sum;
    for (std::size_t k = 0; k < items.columns.size(); ++k)
      logits[items.columns[k]] -= static_cast<double>(items.value(k));
  }
  add_gradients(hidden, weight, d_logits, result);
  return result;
}

LayerGradient squared_layer(const Matrix& hidden, const HostBatch& batch, const Matrix& weight,
                            const Matrix& bias) {
  LayerGradient result;
  Matrix d_logits = linear(hidden, weight, bias, Activation::sigmoid);
  for (std::int64_t row = 0; row < d_logits.rows; ++row) {
    for (std::int64_t i = 0; i < d_logits.columns; ++i) {
      const double output = d_logits.at(row, i);
      const double error = output - (batch.holds(row, static_cast<std::int32_t>(i)) ? 1.0 : 0.0);
      result.nll += error * error / static_cast<double>(d_logits.columns);
      d_logits.at(row, i) = 2.0 * error * output * (1.0 - output) / static_cast<double>(d_logits.columns);
    }
  }
  add_gradients(hidden, weight, d_logits, result);
  return result;
}

LayerGradient linear_backward(const Matrix& input, const Matrix& weight, Activation act, const Matrix& output,
                              const Matrix& d_output) {
  LayerGradient result;
  result.d_before = before_activation(act, output, d_output);
  add_gradients(input, weight, result.d_before, result);
  return result;
}

LayerGradient sparse_linear_backward(const HostBatch& batch, device::InputScaling scaling, StepKey key,
                                     Activation act, const Matrix& output, const Matrix& d_output) {
  LayerGradient result;
  result.d_before = before_activation(act, output, d_output);
  result.d_weight = Matrix(batch.items, d_output.columns);
  each_input(batch, scaling, key, [&](std::int64_t row, std::int64_t item, double value) {
    add_row(result.d_weight, item, value, result.d_before, row);
  });
  result.d_bias = column_sums(result.d_before);
  return result;
}

LatentGradient latent_backward(const HostBatch& batch, const Matrix& statistics, StepKey key, double beta,
                               const Matrix& d_z) {
  const std::int64_t latents = statistics.columns / 2;
  const Matrix eps = noise(batch, latents, key);
  LatentGradient result;
  result.d_statistics = Matrix(statistics.rows, statistics.columns);
  for (std::int64_t row = 0; row < statistics.rows; ++row) {
    for (std::int64_t k = 0; k < latents; ++k) {
      const double mu = statistics.at(row, k);
      const double logvar = statistics.at(row, latents + k);
      result.kl += 0.5 * (std::exp(logvar) + mu * mu - 1.0 - logvar);
      result.d_statistics.at(row, k) = d_z.at(row, k) + beta * mu;
      result.d_statistics.at(row, latents + k) =
          d_z.at(row, k) * eps.at(row, k) * std::exp(logvar / 2.0) / 2.0 +
          beta * (std::exp(logvar) - 1.0) / 2.0;
    }
  }
  return result;
}

Matrix normalize_rows(const Matrix& weight) {
  Matrix a = weight;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    double squares = 0.0;
    for (std::int64_t k = 0; k < a.columns; ++k) squares += a.at(i, k) * a.at(i, k);
    for (std::int64_t k = 0; k < a.columns; ++k) a.at(i, k) /= std::sqrt(squares);
  }
  return a;
}

CosineLoss cosine_loss(const HostBatch& batch, const Matrix& weight) {
  const Matrix a = normalize_rows(weight);
  Matrix x(batch.size(), batch.items);
  for (std::int64_t u = 0; u < x.rows; ++u) {
    const SparseRow items = batch.rows.view().sparse_row(u);
    for (std::size_t k = 0; k < items.columns.size(); ++k)
      x.at(u, items.columns[k]) = static_cast<double>(items.value(k));
  }
  const Matrix sums = product(x, a);
  const Matrix y = product(sums, transposed(a));
  Matrix d_y(x.rows, x.columns);
  CosineLoss result;
  for (std::int64_t u = 0; u < x.rows; ++u) {
    double xx = 0.0;
    double xy = 0.0;
    double yy = 0.0;
    for (std::int64_t i = 0; i < x.columns; ++i) {
      const double predicted = y.at(u, i) - x.at(u, i);
      xx += x.at(u, i) * x.at(u, i);
      xy += x.at(u, i) * predicted;
      yy += predicted * predicted;
    }
    if (xx == 0.0) continue;
    const bool zero = yy < 1e-12 * xx;
    result.loss += zero ? 1.0 : 1.0 - xy / std::sqrt(xx * yy);
    for (std::int64_t i = 0; i < x.columns && !zero; ++i) {
      const double predicted = y.at(u, i) - x.at(u, i);
      d_y.at(u, i) = (xy / yy * predicted - x.at(u, i)) / std::sqrt(xx * yy);
    }
  }
  result.d_weight = product(transposed(x), product(d_y, a));
  const Matrix other = product(transposed(d_y), sums);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    double squares = 0.0;
    double along = 0.0;
    for (std::int64_t k = 0; k < a.columns; ++k) {
      result.d_weight.at(i, k) += other.at(i, k);
      squares += weight.at(i, k) * weight.at(i, k);
      along += a.at(i, k) * result.d_weight.at(i, k);
    }
    for (std::int64_t k = 0; k < a.columns; ++k) {
      double& d = result.d_weight.at(i, k);
      d = (d - a.at(i, k) * along) / std::sqrt(squares);
    }
  }
  return result;
}

void update(const device::UpdateRule& rule, double gradient, double& m, double& v, double& w) {
  const double beta1 = rule.beta1;
  const double beta2 = rule.beta2;
  const double g = rule.gradient_scale * gradient + static_cast<double>(rule.decay) * w;
  switch (rule.kind) {
    case device::OptimizerKind::adam:
      m = beta1 * m + (1.0 - beta1) * g;
      v = beta2 * v + (1.0 - beta2) * g * g;
      w -= rule.rate * m / (std::sqrt(v) + rule.epsilon);
      break;
    case device::OptimizerKind::rmsprop:
      v = beta2 * v + (1.0 - beta2) * g * g;
      m = beta1 * m + rule.rate * g / std::sqrt(v + rule.epsilon);
      w -= m;
      break;
    case device::OptimizerKind::sgd:
      m = beta1 * m + g;
      w -= rule.rate * m;
      break;
  }
}

std::vector<std::int32_t> ranking(const Matrix& scores, const HostBatch& batch, std::int64_t row) {
  std::vector<std::int32_t> order;
  for (std::int32_t item = 0; item < batch.items; ++item) {
    if (!batch.holds(row, item)) order.push_back(item);
  }
  const auto score = [&](std::int32_t item) {
    const double value = scores.at(row, item);
    return std::isnan(value) ? -INFINITY : value;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return score(a) > score(b); });
  return order;
}

std::vector<std::int32_t> compute_target_ranks(const Matrix& scores, const HostBatch& batch,
                                               CsrView targets) {
  std::vector<std::int32_t> ranks;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    std::vector<bool> held(static_cast<std::size_t>(batch.items));
    for (const std::int32_t item : batch.rows.view().row(row)) held[static_cast<std::size_t>(item)] = true;
    for (const std::int32_t target : targets.row(row)) {
      const double own = scores.at(row, target);
      std::int32_t rank = 0;
      for (std::int32_t item = 0; item < batch.items; ++item) {
        if (item == target || held[static_cast<std::size_t>(item)]) continue;
        const double score = scores.at(row, item);
        const bool ahead =
            std::isnan(own) || std::isnan(score) || score > own || (score == own && item < target);
        rank += ahead ? 1 : 0;
      }
      ranks.push_back(held[static_cast<std::size_t>(target)] ? static_cast<std::int32_t>(batch.items) : rank);
    }
  }
  return ranks;
}

}  // namespace reference
}  // namespace vaecf::testing
