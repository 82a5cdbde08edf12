#include <vaecf/backend/cuda/device.hpp>

#include <cstring>

#include "launch.hpp"
#include "shares.hpp"

namespace vaecf::cuda {
namespace {

/// Sums in fp64: neither large numbers nor many of them are lost.
struct Squares {
  static constexpr int threads = Shares::threads;
  static constexpr int scratch_bytes = 0;
  Shares shares;
  double* sums;  // (shares.blocks())

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    const double sum = shares.sum(
        lanes, block, [](float value) { return static_cast<double>(value) * static_cast<double>(value); });
    lanes.each(1, [&](std::int64_t) { sums[block] = sum; });
  }
};

struct AddUp {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const double* sums;
  std::int64_t n;
  double* total;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    const double sum = lanes.sum(n, [&](std::int64_t i) { return sums[i]; });
    lanes.each(1, [&](std::int64_t) { *total = sum; });
  }
};

/// A part of the gradient joins the parts before.
struct AddToGradient {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const double* sums;
  std::int64_t n;
  StepRecord* record;
  float* squares;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    const double sum = lanes.sum(n, [&](std::int64_t i) { return sums[i]; });
    lanes.each(1, [&](std::int64_t) {
      const double scale =
          static_cast<double>(record->numbers.rule.gradient_scale) / static_cast<double>(record->scale.scale);
      record->squares += scale * scale * sum;
      *squares = static_cast<float>(record->squares);
    });
  }
};

/// Sums of the shares of `values` (n), for a kernel that adds them up.
double* sums_of_shares(Queue& queue, Scratch& scratch, const Shares& shares) {
  auto* sums = scratch.get<double>(Scratch::sums, Shares::most_sums, "sums of squares");
  launch(queue, shares.blocks(), Squares{shares, sums});
  return sums;
}

}  // namespace

void Device::add_squares(const FloatBuffer& gradients, Range range, StepState& step) {
  const Shares shares(gradients.data() + range.begin, range.size());
  const double* sums = sums_of_shares(queue_, scratch_, shares);
  launch(queue_, 1, AddToGradient{sums, shares.blocks(), step.record.data(), step.verdict.data() + 1});
}

double Device::sum_of_squares(const Parameters& parameters, int tensor) {
  const Range range = parameters.layout().tensors[tensor].range;
  const Shares shares(parameters.weights(tensor), range.size());
  double* sums = sums_of_shares(queue_, scratch_, shares);
  double* total = sums + Shares::most_blocks;
  launch(queue_, 1, AddUp{sums, shares.blocks(), total});
  float* host = staging(2).data();
  queue_.copy_out(host, total, sizeof(double));
  queue_.finish();
  double result = 0.0;
  std::memcpy(&result, host, sizeof(result));
  return result;
}

}  // namespace vaecf::cuda
