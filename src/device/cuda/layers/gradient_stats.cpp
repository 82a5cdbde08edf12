#include <algorithm>

#include "device/cuda/device.hpp"
#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// Divides an array into shares, one per block. Their number depends only on the size of the array, so that
/// sums keep their order.
class BlockPartition {
 public:
  static constexpr int threads = 256;
  static constexpr std::int64_t max_blocks = 1024;
  /// Number of sums that callers store: one per share and the total.
  static constexpr std::int64_t max_sums = max_blocks + 1;

  BlockPartition(const float* values, std::int64_t n)
      : values_(values),
        n_(n),
        share_(std::max<std::int64_t>(8 * threads, round_up((n + max_blocks - 1) / max_blocks, 8))),
        aligned_(aligned(values)) {}
  std::int64_t blocks() const { return (n_ + share_ - 1) / share_; }

  /// Returns the sum of f(element) over the share of `block`, computed by all its threads.
  template <class Group, class F>
  VAECF_HD double sum(Group& group, std::int64_t block, F&& f) const {
    return group.sum(share_ / 8, [&](std::int64_t index) {
      const std::int64_t first = block * share_ + 8 * index;
      double part = 0.0;
      if (aligned_ && first + 8 <= n_) {
        const Vec8 vec = load_vec8(values_ + first);
        for (const float value : vec.at) part += f(value);
      } else {
        for (std::int64_t i = first; i < n_ && i < first + 8; ++i) part += f(values_[i]);
      }
      return part;
    });
  }

 private:
  const float* values_;
  std::int64_t n_;
  std::int64_t share_;  // a multiple of 8
  bool aligned_;
};

/// Squares a value in fp64, which neither overflows nor loses small terms.
struct Square {
  VAECF_HD double operator()(float value) const {
    return static_cast<double>(value) * static_cast<double>(value);
  }
};
struct IsNonFinite {
  VAECF_HD double operator()(float value) const { return value - value == 0.0F ? 0.0 : 1.0; }
};

template <class F>
struct SumBlocks {
  static constexpr int threads = BlockPartition::threads;
  BlockPartition partition;
  double* sums;  // (shares.blocks())

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    const double sum = partition.sum(group, block, F{});
    group.each(1, [&](std::int64_t) { sums[block] = sum; });
  }
};

/// Adds up `sums` and calls done(total).
template <class Done>
struct ReducePartials {
  static constexpr int threads = 256;
  const double* sums;
  std::int64_t n;
  Done done;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t, std::byte*) const {
    const double sum = group.sum(n, [&](std::int64_t i) { return sums[i]; });
    group.each(1, [&](std::int64_t) { done(sum); });
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

/// Sums F over the `n` values and calls done(sum) on the device.
template <class F, class Done>
void sum_up(Stream& stream, Scratch& scratch, const float* values, std::int64_t n, const Done& done) {
  const BlockPartition partition(values, n);
  auto* sums = scratch.get<double>(Scratch::sums, BlockPartition::max_sums, "sums over shares");
  launch(stream, partition.blocks(), SumBlocks<F>{partition, sums});
  launch(stream, 1, ReducePartials<Done>{sums, partition.blocks(), done});
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
  double* total = scratch_.get<double>(Scratch::sums, BlockPartition::max_sums, "sums over shares") +
                  BlockPartition::max_blocks;
  sum_up<Square>(stream_, scratch_, parameters.weights(tensor), range.size(), Store{total});
  double result = 0.0;
  stream_.copy_d2h(&result, total, sizeof result);
  stream_.synchronize();
  return result;
}

}  // namespace vaecf::cuda
