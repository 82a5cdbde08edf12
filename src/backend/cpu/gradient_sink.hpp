#pragma once

#include <vaecf/backend/backend.hpp>

#include <algorithm>
#include <cstdint>

#include "storage.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {

/// Where the output layer's gradients go: into the flat buffer, which the first slice overwrites and later
/// ones add to, and with `fused`, on the last slice, from there or straight out of the cache into the
/// weights.
struct GradientSink {
  const backend::TensorLayout& weight;
  const backend::TensorLayout& bias;
  const CpuStepState& step;
  float* gradients;
  const backend::FusedUpdate* fused;
  bool first_slice = true;
  bool last_slice = true;

  bool updates() const { return fused != nullptr && last_slice; }
  /// No flat gradient is needed: all of it passes through the cache.
  bool stays_in_cache() const { return updates() && first_slice; }

  /// `gradient` is that of the `n` flat elements from `begin` on.
  void update(const backend::TensorLayout& tensor, std::int64_t begin, const float* gradient,
              std::int64_t n) const {
    CpuParameters& p = cpu(fused->parameters);
    update_elements(step.rule(tensor.spec.decays), gradient, fused->first_moment.data() + begin,
                    fused->second_moment.data() + begin, p.master().data() + begin, p.shadow_of(begin), n);
  }

  /// Takes this slice's gradient of the `n` flat elements from `begin` on, all of it; `slice` is overwritten.
  void take(const backend::TensorLayout& tensor, std::int64_t begin, float* slice, std::int64_t n) const {
    float* flat = gradients + begin;
    if (updates()) {
      if (!first_slice) add(slice, flat, n);
      update(tensor, begin, slice, n);
    } else if (first_slice) {
      std::copy_n(slice, n, flat);
    } else {
      add(flat, slice, n);
    }
  }

  /// Calls use(address, bytes) for all the memory that `take` will read for these elements.
  template <class Use>
  void for_needed_memory(std::int64_t begin, std::int64_t n, Use&& use) const {
    if (!first_slice) use(gradients + begin, n * 4);
    if (!updates()) return;
    use(cpu(fused->parameters).master().data() + begin, n * 4);
    use(fused->first_moment.data() + begin, n * 4);
    use(fused->second_moment.data() + begin, n * 4);
  }
};

}  // namespace vaecf::cpu
