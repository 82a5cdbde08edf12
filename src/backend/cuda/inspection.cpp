#include <vaecf/backend/cuda/device.hpp>

#include "launch.hpp"
#include "shares.hpp"

namespace vaecf::cuda {
namespace {

/// In fp64: neither large numbers nor many of them are lost.
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

/// Calls done(sum of `sums`).
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

/// A part of the gradient joins the parts before.
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

/// A loss that is no number counts too: its step must be skipped on all ranks alike.
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
  if (precision_ == backend::Precision::fp16) {
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
