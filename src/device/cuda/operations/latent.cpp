#include <vaecf/math/composite_prior.hpp>
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/random.hpp>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// Writes activations element by element, with their 16-bit copies unless T is float.
template <class T>
struct Written {
  explicit Written(Matrix& to)
      : values(to.values()), copy(reinterpret_cast<T*>(to.copy())), stride(to.stride()) {}

  VAECF_HD void set(std::int64_t user, std::int64_t column, float value) const {
    values[user * stride + column] = value;
    if constexpr (!std::is_same_v<T, float>) copy[user * stride + column] = from_float<T>(value);
  }

  /// Writes columns [column, column + 4); both `column` and stride are divisible by four.
  VAECF_HD void set(std::int64_t user, std::int64_t column, const Vec4& four) const {
    store_vec4(values + user * stride + column, four);
    if constexpr (!std::is_same_v<T, float>) store_vec4(copy + user * stride + column, four);
  }

  float* values;
  T* copy;
  std::int64_t stride;
};

/// The noise of z, the same in forward and backward pass.
struct LatentNoise {
  const DeviceStepState* state;
  const std::uint32_t* user_numbers;  // (users)
  std::int64_t first_user;            // of these in the batch

  /// Returns one Philox block: the noise of latent dimensions 4 `four` to 4 `four` + 3.
  VAECF_HD Vec4 operator()(std::int64_t user, std::int64_t four) const {
    Vec4 noise;
    math::latent_noise_block(state->params.seed, state->params.step, user_numbers[user],
                             static_cast<std::uint32_t>(four), noise.at);
    return noise;
  }

  VAECF_HD float loss_scale(std::int64_t user) const { return state->scale_of(first_user + user); }
};

LatentNoise noise_of(const StepState& step, const Batch& batch) {
  return {step.device_state.data(), batch.user_numbers.data() + batch.own().begin, batch.own().begin};
}

/// Samples four latent dimensions of one user. Rows of statistics are [mu | logvar]; logvar may be unaligned,
/// so elements are accessed one by one.
template <class T>
struct SampleLatent {
  LatentNoise noise;
  std::int64_t latents;
  const float* statistics;
  std::int64_t statistics_stride;
  Written<T> z;

  VAECF_HD void operator()(std::int64_t w) const {
    const std::int64_t fours = (latents + 3) / 4;
    const std::int64_t user = w / fours;
    const std::int64_t four = w % fours;
    const Vec4 eps = noise(user, four);
    const float* row = statistics + user * statistics_stride;
    for (int j = 0; j < 4; ++j) {
      const std::int64_t k = 4 * four + j;
      if (k >= latents) break;
      z.set(user, k, math::reparameterize(row[k], row[latents + k], eps.at[j]));
    }
  }
};

/// Adds the bias to statistics and samples z as SampleLatent, with one access to each row. The number of
/// latent dimensions must be divisible by four, so that rows are aligned and without padding. No kernel reads
/// a 16-bit copy of statistics.
template <class T>
struct AddBiasAndSample {
  LatentNoise noise;
  std::int64_t latents;
  const float* bias;  // (2 latents)
  float* statistics;  // (users, 2 latents)
  Written<T> z;

  VAECF_HD void operator()(std::int64_t w) const {
    const std::int64_t fours = latents / 4;
    const std::int64_t user = w / fours;
    const std::int64_t four = w % fours;
    const Vec4 eps = noise(user, four);
    float* row = statistics + user * 2 * latents;
    const Vec4 mu = add_bias(row, 4 * four);
    const Vec4 logvar = add_bias(row, latents + 4 * four);
    Vec4 sample;
    for (int j = 0; j < 4; ++j) sample.at[j] = math::reparameterize(mu.at[j], logvar.at[j], eps.at[j]);
    z.set(user, 4 * four, sample);
  }

  VAECF_HD Vec4 add_bias(float* row, std::int64_t k) const {
    Vec4 sum = load_vec4(row + k);
    const Vec4 b = load_vec4(bias + k);
    for (int j = 0; j < 4; ++j) sum.at[j] += b.at[j];
    store_vec4(row + k, sum);
    return sum;
  }
};

template <class T>
struct CopyMean {
  std::int64_t latents;
  const float* statistics;
  std::int64_t statistics_stride;
  Written<T> z;

  VAECF_HD void operator()(std::int64_t w) const {
    const std::int64_t user = w / latents;
    const std::int64_t k = w % latents;
    z.set(user, k, statistics[user * statistics_stride + k]);
  }
};

/// Computes the gradient of the statistics and the KL divergence, one user per block. The layer before
/// writes the gradient's 16-bit copy.
struct LatentBackward {
  static constexpr int threads = 64;
  LatentNoise noise;
  std::int64_t latents;
  const float* statistics;
  std::int64_t statistics_stride;
  const float* d_z;
  std::int64_t z_stride;
  Written<float> d_statistics;
  double* kl;  // (users)

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    const float* row = statistics + user * statistics_stride;
    const double sum = thread_group.sum(
        latents, [&](std::int64_t k) { return math::kl_term<double>(row[k], row[latents + k]); });
    thread_group.each(1, [&](std::int64_t) { kl[user] = sum; });
    thread_group.each((latents + 3) / 4, [&](std::int64_t four) {
      const Vec4 eps = noise(user, four);
      // Incoming gradients include the loss scale, so the added terms must, too.
      const float beta = noise.state->params.beta * noise.loss_scale(user);
      for (int j = 0; j < 4; ++j) {
        const std::int64_t k = 4 * four + j;
        if (k >= latents) break;
        const float gradient = d_z[user * z_stride + k];
        d_statistics.set(user, k, math::latent_gradient_mu(gradient, beta, row[k]));
        d_statistics.set(user, latents + k,
                         math::latent_gradient_logvar(gradient, eps.at[j], beta, row[latents + k]));
      }
    });
  }
};

LatentBackward latent_backward_body(const Batch& batch, const Matrix& statistics, const StepState& step,
                                    const Matrix& d_z, double* kl, Matrix& d_statistics) {
  d_statistics.set_rows(statistics.rows());
  return {.noise = noise_of(step, batch),
          .latents = d_z.columns(),
          .statistics = statistics.values(),
          .statistics_stride = statistics.stride(),
          .d_z = d_z.values(),
          .z_stride = d_z.stride(),
          .d_statistics = Written<float>(d_statistics),
          .kl = kl};
}

/// Computes the same as LatentBackward if the number of latent dimensions is divisible by four. Each warp
/// processes one user; every value is read and written once, four at a time.
struct LatentBackwardByFours {
  static constexpr int threads = 32;
  LatentBackward of;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    const float* row = of.statistics + user * of.statistics_stride;
    const float* d_row = of.d_z + user * of.z_stride;
    const float beta = of.noise.state->params.beta * of.noise.loss_scale(user);
    const double sum = thread_group.sum(of.latents / 4, [&](std::int64_t four) {
      const Vec4 mu = load_vec4(row + 4 * four);
      const Vec4 logvar = load_vec4(row + of.latents + 4 * four);
      const Vec4 d = load_vec4(d_row + 4 * four);
      double kl = 0.0;
      for (int j = 0; j < 4; ++j) kl += math::kl_term<double>(mu.at[j], logvar.at[j]);
      const Vec4 eps = of.noise(user, four);
      Vec4 d_mu;
      Vec4 d_logvar;
      for (int j = 0; j < 4; ++j) {
        d_mu.at[j] = math::latent_gradient_mu(d.at[j], beta, mu.at[j]);
        d_logvar.at[j] = math::latent_gradient_logvar(d.at[j], eps.at[j], beta, logvar.at[j]);
      }
      of.d_statistics.set(user, 4 * four, d_mu);
      of.d_statistics.set(user, of.latents + 4 * four, d_logvar);
      return kl;
    });
    thread_group.each(1, [&](std::int64_t) { of.kl[user] = sum; });
  }
};

// One user per block.
struct CompositeLatentBackward {
  static constexpr int threads = 64;
  static constexpr int blocks_at_once = 24;
  LatentBackward of;
  const RowTotals* totals;  // (users)
  const float* old_statistics;
  math::CompositePrior prior;
  float gamma;
  double* weighted_kl;  // (users)

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    const float* row = of.statistics + user * of.statistics_stride;
    const float* old = old_statistics + user * of.statistics_stride;
    const float of_items = gamma * totals[user].sum;
    const float weight = (of.noise.state->params.beta + of_items) * of.noise.loss_scale(user);
    const double sum = thread_group.sum((of.latents + 3) / 4, [&](std::int64_t four) {
      const Vec4 eps = of.noise(user, four);
      double kl = 0.0;
      for (int j = 0; j < 4; ++j) {
        const std::int64_t k = 4 * four + j;
        if (k >= of.latents) break;
        const auto term =
            math::composite_term(prior, row[k], row[of.latents + k], eps.at[j], old[k], old[of.latents + k]);
        kl += static_cast<double>(term.kl);
        const float gradient = of.d_z[user * of.z_stride + k] + weight * term.d_z;
        of.d_statistics.set(user, k, gradient);
        of.d_statistics.set(
            user, of.latents + k,
            math::composite_gradient_logvar(gradient, eps.at[j], weight, row[of.latents + k]));
      }
      return kl;
    });
    thread_group.each(1, [&](std::int64_t) {
      of.kl[user] = sum;
      weighted_kl[user] = static_cast<double>(of_items) * sum;
    });
  }
};

}  // namespace

void Device::linear_and_sample(const Matrix& input, const Parameters& parameters, Layer layer,
                               const device::Batch& batch, const device::StepState& step, Matrix& statistics,
                               Matrix& z) {
  if (z.columns() % 4 != 0) {
    linear(input, parameters, layer, Activation::identity, statistics);
    sample_latent(batch, statistics, step, z);
    return;
  }
  const NvtxRange nvtx("forward: layer and sample");
  layer_product(input, parameters, layer, statistics);
  z.set_rows(statistics.rows());
  dispatch_dtype(dtype(), [&]<class T>(T) {
    launch_elements<128>(stream_, statistics.rows() * z.columns() / 4,
                         AddBiasAndSample<T>{.noise = noise_of(own<StepState>(step), own<Batch>(batch)),
                                             .latents = z.columns(),
                                             .bias = parameters.weights(layer.bias),
                                             .statistics = statistics.values(),
                                             .z = Written<T>(z)});
  });
}

void Device::sample_latent(const device::Batch& batch, const Matrix& statistics,
                           const device::StepState& step, Matrix& z) {
  const NvtxRange nvtx("forward: sample");
  z.set_rows(statistics.rows());
  dispatch_dtype(dtype(), [&]<class T>(T) {
    launch_elements<128>(stream_, statistics.rows() * ((z.columns() + 3) / 4),
                         SampleLatent<T>{.noise = noise_of(own<StepState>(step), own<Batch>(batch)),
                                         .latents = z.columns(),
                                         .statistics = statistics.values(),
                                         .statistics_stride = statistics.stride(),
                                         .z = Written<T>(z)});
  });
}

void Device::latent_mean(const Matrix& statistics, Matrix& z) {
  const NvtxRange nvtx("forward: mean");
  z.set_rows(statistics.rows());
  dispatch_dtype(dtype(), [&]<class T>(T) {
    launch_elements<128>(stream_, statistics.rows() * z.columns(),
                         CopyMean<T>{.latents = z.columns(),
                                     .statistics = statistics.values(),
                                     .statistics_stride = statistics.stride(),
                                     .z = Written<T>(z)});
  });
}

void Device::latent_backward(const device::Batch& batch_base, const Matrix& statistics, const Matrix& d_z,
                             Matrix& d_statistics, device::StepState& step_base) {
  auto& step = own<StepState>(step_base);
  const NvtxRange nvtx("backward: latent");
  const std::int64_t users = statistics.rows();
  const auto& batch = own<Batch>(batch_base);
  double* kl = user_losses(batch.own(), step.kl, step);
  const auto body = latent_backward_body(batch, statistics, step, d_z, kl, d_statistics);
  if (body.latents % 4 == 0) {
    launch(stream_, users, LatentBackwardByFours{body});
  } else {
    launch(stream_, users, body);
  }
}

void Device::composite_latent_backward(const device::Batch& batch_base, const Matrix& statistics,
                                       const Matrix& old_statistics, const math::CompositePrior& prior,
                                       float gamma, const Matrix& d_z, Matrix& d_statistics,
                                       device::StepState& step_base) {
  const auto& batch = own<Batch>(batch_base);
  auto& step = own<StepState>(step_base);
  const NvtxRange nvtx("backward: latent, composite prior");
  const std::int64_t users = statistics.rows();
  double* kl = user_losses(batch.own(), step.kl, step);
  double* weighted_kl = user_losses(batch.own(), step.weighted_kl, step);
  launch(stream_, users,
         CompositeLatentBackward{.of = latent_backward_body(batch, statistics, step, d_z, kl, d_statistics),
                                 .totals = batch.totals.data() + batch.own().begin,
                                 .old_statistics = old_statistics.values(),
                                 .prior = prior,
                                 .gamma = gamma,
                                 .weighted_kl = weighted_kl});
}

}  // namespace vaecf::cuda
