#include <algorithm>
#include <stdexcept>
#include <string>

#include "device/cuda/device.hpp"
#include "device/cuda/kernels/update_kernels.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

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
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte*) const {
    if (update.gradient_stats[0] > 0.0F) return;
    int part = 0;
    while (part + 1 < count && block >= parts[part + 1].first_block) ++part;
    const UpdateRule rule = update.rule(parts[part].range.decays);
    const Range range = parts[part].range.elements;
    const std::int64_t first_eight = (block - parts[part].first_block) * threads;
    thread_group.each(threads, [&](std::int64_t t) { eight(rule, range, first_eight + t); });
  }

  /// Updates the elements of `range` in its model-parallel group number `vec` of eight.
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
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte*) const {
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
  if (!aligned(gradients.data())) throw std::logic_error("update: buffers must be aligned to 16 bytes");
  return {make_weight_update<T>(step, moments, parameters), gradients.data()};
}

}  // namespace

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
