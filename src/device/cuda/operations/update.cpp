#include "device/cuda/operations/update.hpp"

#include <string>

#include "device/cuda/device.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

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
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
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

template <class Done>
struct ReducePartials {
  static constexpr int threads = 256;
  const double* sums;
  std::int64_t n;
  Done done;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t) const {
    const double sum = thread_group.sum(n, [&](std::int64_t i) { return sums[i]; });
    thread_group.each(1, [&](std::int64_t) { done(sum); });
  }
};

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

/// The maximum number of ranges of the weights that one launch updates.
constexpr std::size_t max_parts = 16;

/// Updates weights and moments in one pass over gradient, moments and weights. It accesses 30 bytes per
/// element and is bound by memory bandwidth. Eights of elements are aligned to the start of the
/// buffers, not to that of the range. T is the type of the 16-bit copies; float means no copies.
template <class T>
struct Update {
  static constexpr int threads = 256;
  WeightUpdate<T> update;
  const float* gradients;
  struct Part {
    UpdateRange range;
    std::int64_t first_block = 0;
  };
  Part parts[max_parts] = {};
  int count = 0;

  /// Adds `range` and returns the number of blocks so far.
  std::int64_t add(const UpdateRange& range, std::int64_t blocks) {
    parts[count++] = {range, blocks};
    return blocks + (range.elements.size() > 0 ? blocks_for(vecs(range.elements), threads) : 0);
  }
  VAECF_HD static std::int64_t vecs(Range range) { return (range.end + 7) / 8 - range.begin / 8; }

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    if (update.gradient_stats[0] > 0.0F) return;
    int part = 0;
    while (part + 1 < count && block >= parts[part + 1].first_block) ++part;
    const UpdateRule rule = update.rule(parts[part].range.decays);
    const Range range = parts[part].range.elements;
    const std::int64_t first_eight = (block - parts[part].first_block) * threads;
    thread_group.each(threads, [&](std::int64_t t) { eight(rule, range, first_eight + t); });
  }

  /// Updates the elements of `range` among the `vec`-th eight elements, counted from its first.
  VAECF_HD void eight(const UpdateRule& rule, Range range, std::int64_t vec) const {
    const std::int64_t at = (range.begin / 8 + vec) * 8;
    if (at >= range.begin && at + 8 <= range.end) {
      update.eight(rule, load_vec8(gradients + at), at);
    } else {
      for (std::int64_t i = at; i < at + 8; ++i) {
        if (i >= range.begin && i < range.end) update.one(rule, gradients[i], i);
      }
    }
  }
};

/// Update on half of the multiprocessors of an H100, one block on each: the others remain for the products of
/// the backward pass, which need most registers of a multiprocessor.
template <class T>
struct UpdateBeside {
  static constexpr int threads = 1024;
  static constexpr std::int64_t blocks = 64;
  Update<T> whole;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    for (int part = 0; part < whole.count; ++part) {
      const Range range = whole.parts[part].range.elements;
      const UpdateRule rule = whole.update.rule(whole.parts[part].range.decays);
      const std::int64_t rounds = (Update<T>::vecs(range) + blocks * threads - 1) / (blocks * threads);
      thread_group.each(rounds * threads, [&](std::int64_t i) {
        whole.eight(rule, range, (i / threads * blocks + block) * threads + i % threads);
      });
    }
  }
};

template <class T>
Update<T> make_update(const StepState& step, const Buffer& gradients, Moments moments,
                      Parameters& parameters) {
  return {make_weight_update<T>(step, moments, parameters), gradients.data()};
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

void Device::update(std::span<const UpdateRange> ranges, const Buffer& gradients, Moments moments,
                    Parameters& parameters, const device::StepState& step_base) {
  const auto& step = own<StepState>(step_base);
  const NvtxRange nvtx("optimizer");
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const auto update = make_update<T>(step, gradients, moments, parameters);
    for (; !ranges.empty(); ranges = ranges.subspan(std::min(max_parts, ranges.size()))) {
      Update<T> some = update;
      std::int64_t blocks = 0;
      for (const UpdateRange& range : ranges.first(std::min(max_parts, ranges.size()))) {
        blocks = some.add(range, blocks);
      }
      launch(stream_, blocks, some);
    }
  });
}

bool Device::fuses_updates() const {
  // In fp16, the overflow of any gradient prevents all updates.
  return precision_ != device::Precision::fp16;
}

void Device::require_fusible(const char* operation, const StepState& step) const {
  if (!fuses_updates())
    throw std::logic_error(std::string(operation) + ": this device does not fuse updates");
  if (step.params.rule.clip_norm > 0.0F)
    throw std::logic_error(std::string(operation) + ": an update with clipping cannot be fused");
}

void Device::update_beside(const StepState& step, std::span<const UpdateRange> ranges,
                           const Buffer& gradients, const FusedUpdate& fused) {
  const NvtxRange nvtx("optimizer, beside");
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const Moments moments{fused.first_moment, fused.second_moment};
    UpdateBeside<T> update{make_update<T>(step, gradients, moments, fused.parameters)};
    for (const UpdateRange& range : ranges) update.whole.add(range, 0);
    run_beside(update_, [&] { launch(side_stream_, UpdateBeside<T>::blocks, update); });
  });
}

}  // namespace vaecf::cuda
