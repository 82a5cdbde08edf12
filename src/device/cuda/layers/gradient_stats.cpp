#include <algorithm>

#include "device/cuda/device.hpp"
#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// The largest number of shares of sum_up().
constexpr std::int64_t max_shares = 1024;

/// Squares a value in fp64, which neither overflows nor loses small terms.
struct Square {
  VAECF_HD double operator()(float value) const {
    return static_cast<double>(value) * static_cast<double>(value);
  }
};
struct IsNonFinite {
  VAECF_HD double operator()(float value) const { return value - value == 0.0F ? 0.0 : 1.0; }
};

/// Sums F of the elements of one share of an array per block.
template <class F>
struct SumShare {
  static constexpr int threads = 256;
  const float* values;
  std::int64_t n;
  std::int64_t share;  // elements, a multiple of 8
  bool whole;          // elements can be loaded eight at a time
  double* sums;        // (shares)

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte*) const {
    const double sum = thread_group.sum(share / 8, [&](std::int64_t eight) {
      const std::int64_t first = block * share + 8 * eight;
      double part = 0.0;
      if (whole && first + 8 <= n) {
        const Vec8 vec = load_vec8(values + first);
        for (const float value : vec.at) part += F()(value);
      } else {
        for (std::int64_t i = first; i < n && i < first + 8; ++i) part += F()(values[i]);
      }
      return part;
    });
    thread_group.each(1, [&](std::int64_t) { sums[block] = sum; });
  }
};

/// Adds up `sums` and calls done(total).
template <class Done>
struct ReducePartials {
  static constexpr int threads = 256;
  const double* sums;
  std::int64_t n;
  Done done;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t, std::byte*) const {
    const double sum = thread_group.sum(n, [&](std::int64_t i) { return sums[i]; });
    thread_group.each(1, [&](std::int64_t) { done(sum); });
  }
};

/// Adds the squares of a part of the gradient to those of earlier parts.
struct AccumulateGradientNorm {
  DeviceStepState* state;
  float* squares;
  VAECF_HD void operator()(double sum) const {
    const double scale =
        static_cast<double>(state->params.rule.gradient_scale) / static_cast<double>(state->scale.scale);
    state->squares += scale * scale * sum;
    *squares = static_cast<float>(state->squares);
  }
};

/// Counts non-finite gradients of a part. A non-finite loss counts too, so that all ranks skip its step.
struct CountNonFinite {
  const DeviceStepState* state;
  float* overflow;
  VAECF_HD void operator()(double count) const {
    *overflow += static_cast<float>(count + (state->finite() ? 0.0 : 1.0));
  }
};

struct Store {
  double* total;
  VAECF_HD void operator()(double sum) const { *total = sum; }
};

/// Returns memory for the sums of shares and, behind them, a total.
double* shares_memory(Scratch& scratch) {
  return scratch.get<double>(Scratch::sums, max_shares + 1, "sums over shares");
}

/// Sums F over the `n` values and calls done(sum) on the device. The number of shares depends only on n, so
/// that sums keep their order.
template <class F, class Done>
void sum_up(Stream& stream, Scratch& scratch, const float* values, std::int64_t n, const Done& done) {
  const std::int64_t share =
      std::max<std::int64_t>(8 * SumShare<F>::threads, round_up((n + max_shares - 1) / max_shares, 8));
  const std::int64_t shares = blocks_for(n, share);
  auto* sums = shares_memory(scratch);
  launch(stream, shares, SumShare<F>{values, n, share, aligned(values), sums});
  launch(stream, 1, ReducePartials<Done>{sums, shares, done});
}

}  // namespace

void Device::accumulate_gradient_stats(const Buffer& gradients, Range range, device::StepState& step_base) {
  auto& step = own<StepState>(step_base);
  const float* values = gradients.data() + range.begin;
  DeviceStepState* state = step.device_state.data();
  float* gradient_stats = step.gradient_stats.data();
  if (precision_ == device::Precision::fp16) {
    add_losses(step);  // CountNonFinite reads them
    sum_up<IsNonFinite>(stream_, scratch_, values, range.size(), CountNonFinite{state, gradient_stats});
  }
  if (step.params.rule.clip_norm > 0.0F) {
    sum_up<Square>(stream_, scratch_, values, range.size(),
                   AccumulateGradientNorm{state, gradient_stats + 1});
  }
}

double Device::sum_of_squares(const Parameters& parameters, int tensor) {
  const Range range = parameters.layout().tensors[tensor].range;
  double* total = shares_memory(scratch_) + max_shares;
  sum_up<Square>(stream_, scratch_, parameters.weights(tensor), range.size(), Store{total});
  double result = 0.0;
  stream_.copy_d2h(&result, total, sizeof result);
  stream_.synchronize();
  return result;
}

}  // namespace vaecf::cuda
