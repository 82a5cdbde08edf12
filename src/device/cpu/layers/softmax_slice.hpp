#pragma once

#include <vaecf/device/device.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "device/cpu/layers/output_slice.hpp"

namespace vaecf::cpu {

/// Takes the output layer's gradients: into the flat buffer, which the first slice overwrites and later ones
/// add to, and with `fused`, on the last slice, from there or straight out of the cache into the weights.
struct GradientSink {
  const device::TensorLayout& weight;
  const device::TensorLayout& bias;
  const StepState& step;
  float* gradients;
  const FusedUpdate* fused;
  bool first_slice = true;
  bool last_slice = true;

  bool updates() const { return fused != nullptr && last_slice; }
  /// No flat gradient is needed: all of it passes through the cache.
  bool stays_in_cache() const { return updates() && first_slice; }

  /// `gradient` is that of the `n` flat elements from `begin` on.
  void update(const device::TensorLayout& tensor, std::int64_t begin, const float* gradient,
              std::int64_t n) const {
    Parameters& p = fused->parameters;
    update_elements(step.rule(tensor.spec.decays), gradient, fused->first_moment.data() + begin,
                    fused->second_moment.data() + begin, p.master().data() + begin, p.shadow_of(begin), n);
  }

  /// Takes this slice's gradient of the `n` flat elements from `begin` on, all of it; `slice` is overwritten.
  void take(const device::TensorLayout& tensor, std::int64_t begin, float* slice, std::int64_t n) const {
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
    use(fused->parameters.master().data() + begin, n * 4);
    use(fused->first_moment.data() + begin, n * 4);
    use(fused->second_moment.data() + begin, n * 4);
  }
};

/// A slice of users on its way through the output layer, in two passes over blocks of items: exponentials
/// from the first become gradients in the second. SoftmaxLayer does it with the library's products,
/// TileSoftmax with a kernel of our own. They do not share a loop over blocks, since sums would round
/// differently: SoftmaxLayer scales E by a factor per tile and user before the products and adds later slices
/// within them; TileSoftmax has one factor per user, which it moves from E to the hidden units, and adds
/// slices in the sink.
class SoftmaxSlice {
 public:
  virtual ~SoftmaxSlice() = default;
  /// Pass 1; returns the slice's negative log-likelihood.
  virtual double forward() = 0;
  /// Pass 2 over some items, whole tiles of tile_items but for the last; those from 0 on have to come first.
  virtual void backward(Range items, const GradientSink& sink) = 0;
  /// Sums up the threads' shares when all blocks are through.
  virtual void finish_hidden_gradient(Activations& d_hidden) const = 0;
};

std::unique_ptr<SoftmaxSlice> make_tile_softmax(const TileKernels& kernels, Workspace& workspace,
                                                const OutputSlice& slice);

}  // namespace vaecf::cpu
