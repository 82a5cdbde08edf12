#include <vaecf/device/cuda/device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <type_traits>

#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/tune.hpp"

namespace vaecf::cuda {
namespace {

/// The maximum number of ranges of the weights that one launch updates.
constexpr int max_parts = 16;

/// Updates weights and moments in one pass over gradient, moments and weights. It accesses 30 bytes per
/// element and is bound by memory bandwidth. Groups of eight elements are aligned to the start of the
/// buffers, not to that of the range. T is the type of the 16-bit copies; float means no copies.
template <class T>
struct Update {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const DeviceStepState* state;
  const float* gradient_stats;  // number of overflows; squared norm of the gradient, if the rule clips
  const float* gradients;
  float* first;
  float* second;
  std::int64_t moments_offset;  // moments of element i are at i + moments_offset, a multiple of 64
  float* weights;
  T* copies;
  struct Part {
    device::UpdateRange range;
    std::int64_t first_block = 0;
  };
  Part parts[max_parts] = {};
  int count = 0;

  /// Adds `range` and returns the number of blocks so far.
  std::int64_t add(const device::UpdateRange& range, std::int64_t blocks) {
    parts[count++] = {range, blocks};
    const std::int64_t vecs = (range.elements.end + 7) / 8 - range.elements.begin / 8;
    return blocks + (range.elements.size() > 0 ? blocks_for(vecs, threads) : 0);
  }

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    if (gradient_stats[0] > 0.0F) return;
    device::UpdateRule rule = state->params.rule;
    rule.gradient_scale *= device::clip_factor(rule, gradient_stats[1]) / state->scale.scale;
    int part = 0;
    while (part + 1 < count && block >= parts[part + 1].first_block) ++part;
    if (!parts[part].range.decays) rule.decay = 0.0F;
    const Range range = parts[part].range.elements;
    const std::int64_t first_group = range.begin / 8 + (block - parts[part].first_block) * threads;
    group.each(threads, [&](std::int64_t t) {
      const std::int64_t at = (first_group + t) * 8;
      if (at >= range.begin && at + 8 <= range.end) {
        eight(rule, at);
      } else {
        for (std::int64_t i = at; i < at + 8; ++i) {
          if (i >= range.begin && i < range.end) one(rule, i);
        }
      }
    });
  }

  VAECF_HD static void element(const device::UpdateRule& rule, float gradient, float& m, float& v, float& w) {
    const float g = math::step_gradient(gradient, rule.gradient_scale, rule.decay, w);
    switch (rule.kind) {
      case device::OptimizerKind::adam:
        math::adam_element(g, rule.rate, rule.beta1, rule.beta2, rule.epsilon, m, v, w);
        break;
      case device::OptimizerKind::rmsprop:
        math::rmsprop_element(g, rule.rate, rule.beta1, rule.beta2, rule.epsilon, m, v, w);
        break;
      case device::OptimizerKind::sgd:
        math::sgd_element(g, rule.rate, rule.beta1, m, w);
        break;
    }
  }

  VAECF_HD void one(const device::UpdateRule& rule, std::int64_t i) const {
    const std::int64_t m = i + moments_offset;
    element(rule, gradients[i], first[m], second[m], weights[i]);
    if constexpr (!std::is_same_v<T, float>) copies[i] = from_float<T>(weights[i]);
  }

  VAECF_HD void eight(const device::UpdateRule& rule, std::int64_t i) const {
    const Vec8 g = load_vec8(gradients + i);
    const std::int64_t at = i + moments_offset;
    Vec8 m = load_vec8(first + at);
    Vec8 v = load_vec8(second + at);
    Vec8 w = load_vec8(weights + i);
    for (int j = 0; j < 8; ++j) element(rule, g.at[j], m.at[j], v.at[j], w.at[j]);
    store_vec8(first + at, m);
    store_vec8(second + at, v);
    store_vec8(weights + i, w);
    if constexpr (!std::is_same_v<T, float>) store_vec8(copies + i, w);
  }
};

}  // namespace

void Device::update(const StepState& step, bool decays, Range range, const FloatBuffer& gradients,
                    Moments moments, Parameters& parameters) {
  const device::UpdateRange ranges[] = {{range, decays}};
  update_all(step, ranges, gradients, moments, parameters);
}

void Device::update_all(const StepState& step, std::span<const device::UpdateRange> ranges,
                        const FloatBuffer& gradients, Moments moments, Parameters& parameters) {
  const NvtxRange nvtx("optimizer");
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const Update<T> update{.state = step.device_state.data(),
                           .gradient_stats = step.gradient_stats.data(),
                           .gradients = gradients.data(),
                           .first = moments.first.data(),
                           .second = moments.second.data(),
                           .moments_offset = moments.offset,
                           .weights = parameters.master().data(),
                           .copies = reinterpret_cast<T*>(parameters.copies())};
    for (const void* memory : std::initializer_list<const void*>{
             update.gradients, update.first, update.second, update.weights, update.copies}) {
      if (!aligned(memory)) throw std::logic_error("update: buffers must be aligned to 16 bytes");
    }
    const std::size_t at_once = tune().diet != 0 ? max_parts : 1;
    for (; !ranges.empty(); ranges = ranges.subspan(std::min(at_once, ranges.size()))) {
      Update<T> some = update;
      std::int64_t blocks = 0;
      for (const device::UpdateRange& range : ranges.first(std::min(at_once, ranges.size()))) {
        blocks = some.add(range, blocks);
      }
      launch(stream_, blocks, some);
    }
  });
}

}  // namespace vaecf::cuda
