#include <vaecf/device/cuda/device.hpp>

#include <algorithm>

#include "device/cuda/kernels/eights.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// Divides an array into shares, one per block. Their number depends only on the size of the array, so that
/// sums keep their order.
class Shares {
 public:
  static constexpr int threads = 256;
  static constexpr std::int64_t most_blocks = 1024;
  /// Number of sums that callers store: one per share and the total.
  static constexpr std::int64_t most_sums = most_blocks + 1;

  Shares(const float* values, std::int64_t n)
      : values_(values),
        n_(n),
        share_(std::max<std::int64_t>(8 * threads, round_up((n + most_blocks - 1) / most_blocks, 8))),
        aligned_(aligned(values)) {}
  std::int64_t blocks() const { return (n_ + share_ - 1) / share_; }

  /// Returns the sum of f(element) over the share of `block`, computed by all its threads.
  template <class Lanes, class F>
  VAECF_HD double sum(Lanes& lanes, std::int64_t block, F&& f) const {
    return lanes.sum(share_ / 8, [&](std::int64_t group) {
      const std::int64_t first = block * share_ + 8 * group;
      double part = 0.0;
      if (aligned_ && first + 8 <= n_) {
        const Eight eight = load_eight(values_ + first);
        for (const float value : eight.at) part += f(value);
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

/// In fp64, which neither overflows nor loses small terms.
struct Square {
  VAECF_HD double operator()(float value) const {
    return static_cast<double>(value) * static_cast<double>(value);
  }
};
struct IsBroken {
  VAECF_HD double operator()(float value) const { return value - value == 0.0F ? 0.0 : 1.0; }
};

template <class F>
struct SumShares {
  static constexpr int threads = Shares::threads;
  static constexpr int scratch_bytes = 0;
  Shares shares;
  double* sums;  // (shares.blocks())

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    const double sum = shares.sum(lanes, block, F{});
    lanes.each(1, [&](std::int64_t) { sums[block] = sum; });
  }
};

/// Calls done(total of `sums`).
template <class Done>
struct AddUp {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const double* sums;
  std::int64_t n;
  Done done;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    const double sum = lanes.sum(n, [&](std::int64_t i) { return sums[i]; });
    lanes.each(1, [&](std::int64_t) { done(sum); });
  }
};

/// Adds the squares of a part of the gradient to those of earlier parts.
struct AddSquares {
  StepRecord* record;
  float* squares;
  VAECF_HD void operator()(double sum) const {
    const double scale =
        static_cast<double>(record->numbers.rule.gradient_scale) / static_cast<double>(record->scale.scale);
    record->squares += scale * scale * sum;
    *squares = static_cast<float>(record->squares);
  }
};

/// A non-finite loss counts too: its step must be skipped on all ranks.
struct AddBroken {
  const StepRecord* record;
  float* overflow;
  VAECF_HD void operator()(double count) const {
    *overflow += static_cast<float>(count + (record->finite() ? 0.0 : 1.0));
  }
};

struct Store {
  double* total;
  VAECF_HD void operator()(double sum) const { *total = sum; }
};

/// Calls done(sum of F over the `n` values) on the device.
template <class F, class Done>
void sum_up(Queue& queue, Scratch& scratch, const float* values, std::int64_t n, const Done& done) {
  const Shares shares(values, n);
  auto* sums = scratch.get<double>(Scratch::sums, Shares::most_sums, "sums over shares");
  launch(queue, shares.blocks(), SumShares<F>{shares, sums});
  launch(queue, 1, AddUp<Done>{sums, shares.blocks(), done});
}

}  // namespace

void Device::inspect_gradients(const FloatBuffer& gradients, Range range, StepState& step) {
  const float* values = gradients.data() + range.begin;
  StepRecord* record = step.record.data();
  float* verdict = step.verdict.data();
  if (precision_ == device::Precision::fp16) {
    sum_up<IsBroken>(queue_, scratch_, values, range.size(), AddBroken{record, verdict});
  }
  if (step.numbers.rule.clip_norm > 0.0F) {
    sum_up<Square>(queue_, scratch_, values, range.size(), AddSquares{record, verdict + 1});
  }
}

double Device::sum_of_squares(const Parameters& parameters, int tensor) {
  const Range range = parameters.layout().tensors[tensor].range;
  double* total =
      scratch_.get<double>(Scratch::sums, Shares::most_sums, "sums over shares") + Shares::most_blocks;
  sum_up<Square>(queue_, scratch_, parameters.weights(tensor), range.size(), Store{total});
  double result = 0.0;
  queue_.copy_out(&result, total, sizeof result);
  queue_.finish();
  return result;
}

}  // namespace vaecf::cuda
