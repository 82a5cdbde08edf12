#include <vaecf/device/cuda/device.hpp>
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/philox.hpp>

#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/tune.hpp"

namespace vaecf::cuda {
namespace {

/// Activations that are written element by element, with their 16-bit copies: none if T is float, or unless
/// `copies`.
template <class T>
struct Written {
  explicit Written(Activations& to, bool copies = true)
      : values(to.values()), copy(copies ? reinterpret_cast<T*>(to.copy()) : nullptr), stride(to.stride()) {}

  VAECF_HD void set(std::int64_t user, std::int64_t column, float value) const {
    values[user * stride + column] = value;
    if constexpr (!std::is_same_v<T, float>) {
      if (copy != nullptr) copy[user * stride + column] = from_float<T>(value);
    }
  }

  float* values;
  T* copy;
  std::int64_t stride;
};

// One Philox block, that is four latent dimensions of one user, per thread. Rows of statistics are [mu |
// logvar]; logvar may be unaligned, so elements are accessed one by one.
template <class T>
struct SampleLatent {
  static constexpr int threads = 128;
  static constexpr int scratch_bytes = 0;
  const DeviceStepState* state;
  const std::uint32_t* user_numbers;
  std::int64_t users;
  std::int64_t latents;
  const float* statistics;
  std::int64_t statistics_stride;
  Written<T> z;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    const std::int64_t fours = (latents + 3) / 4;
    for_each_in_grid<threads>(group, block, users * fours, [&](std::int64_t w) {
      const std::int64_t user = w / fours;
      const std::int64_t first = 4 * (w % fours);
      float noise[4];
      math::latent_noise_block(state->params.seed, state->params.step, user_numbers[user],
                               static_cast<std::uint32_t>(first / 4), noise);
      const float* row = statistics + user * statistics_stride;
      for (int j = 0; j < 4; ++j) {
        const std::int64_t k = first + j;
        if (k >= latents) break;
        z.set(user, k, math::reparameterize(row[k], row[latents + k], noise[j]));
      }
    });
  }
};

template <class T>
struct CopyMean {
  static constexpr int threads = 128;
  static constexpr int scratch_bytes = 0;
  std::int64_t users;
  std::int64_t latents;
  const float* statistics;
  std::int64_t statistics_stride;
  Written<T> z;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, users * latents, [&](std::int64_t w) {
      const std::int64_t user = w / latents;
      const std::int64_t k = w % latents;
      z.set(user, k, statistics[user * statistics_stride + k]);
    });
  }
};

// One user per block.
template <class T>
struct LatentBackward {
  static constexpr int threads = 64;
  static constexpr int scratch_bytes = 0;
  const DeviceStepState* state;
  const std::uint32_t* user_numbers;
  std::int64_t latents;
  const float* statistics;
  std::int64_t statistics_stride;
  const float* d_z;
  std::int64_t z_stride;
  Written<T> d_statistics;
  double* kl;  // (users)

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t user, std::byte*) const {
    const float* row = statistics + user * statistics_stride;
    const double sum =
        group.sum(latents, [&](std::int64_t k) { return math::kl_term<double>(row[k], row[latents + k]); });
    group.each(1, [&](std::int64_t) { kl[user] = sum; });
    // Incoming gradients include the loss scale, so the added terms must, too.
    const float beta = state->params.beta * state->scale.scale;
    group.each((latents + 3) / 4, [&](std::int64_t four) {
      float noise[4];
      math::latent_noise_block(state->params.seed, state->params.step, user_numbers[user],
                               static_cast<std::uint32_t>(four), noise);
      for (int j = 0; j < 4; ++j) {
        const std::int64_t k = 4 * four + j;
        if (k >= latents) break;
        const float gradient = d_z[user * z_stride + k];
        d_statistics.set(user, k, math::latent_gradient_mu(gradient, beta, row[k]));
        d_statistics.set(user, latents + k,
                         math::latent_gradient_logvar(gradient, noise[j], beta, row[latents + k]));
      }
    });
  }
};

}  // namespace

void Device::sample_latent(const Batch& batch, const Activations& statistics, const StepState& step,
                           Activations& z) {
  const NvtxRange nvtx("forward: sample");
  z.set_rows(statistics.rows());
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const SampleLatent<T> body{.state = step.device_state.data(),
                               .user_numbers = batch.user_numbers.data(),
                               .users = statistics.rows(),
                               .latents = z.columns(),
                               .statistics = statistics.values(),
                               .statistics_stride = statistics.stride(),
                               .z = Written<T>(z)};
    launch(stream_, blocks_for(body.users * ((body.latents + 3) / 4), body.threads), body);
  });
}

void Device::latent_mean(const Activations& statistics, Activations& z) {
  const NvtxRange nvtx("forward: mean");
  z.set_rows(statistics.rows());
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const CopyMean<T> body{.users = statistics.rows(),
                           .latents = z.columns(),
                           .statistics = statistics.values(),
                           .statistics_stride = statistics.stride(),
                           .z = Written<T>(z)};
    launch(stream_, blocks_for(body.users * body.latents, body.threads), body);
  });
}

void Device::latent_backward(const Batch& batch, const Activations& statistics, StepState& step,
                             const Activations& d_z, Activations& d_statistics) {
  const NvtxRange nvtx("backward: latent");
  const std::int64_t users = statistics.rows();
  d_statistics.set_rows(users);
  if (users == 0) return;
  DeviceStepState* state = step.device_state.data();
  double* kl = scratch_.get<double>(Scratch::per_user, users, "losses of the batch's users");
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const LatentBackward<T> body{.state = state,
                                 .user_numbers = batch.user_numbers.data(),
                                 .latents = d_z.columns(),
                                 .statistics = statistics.values(),
                                 .statistics_stride = statistics.stride(),
                                 .d_z = d_z.values(),
                                 .z_stride = d_z.stride(),
                                 .d_statistics = Written<T>(d_statistics, tune().diet == 0),
                                 .kl = kl};
    launch(stream_, users, body);
  });
  add_losses(stream_, kl, users, &state->kl);
}

}  // namespace vaecf::cuda
