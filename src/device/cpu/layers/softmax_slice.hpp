#pragma once

#include <vaecf/device/device.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "device/cpu/layers/output_slice.hpp"

namespace vaecf::cpu {

/// Receives the output layer's gradients. They go to the flat buffer, which the first slice overwrites and
/// later slices add to. With `fused`, the last slice updates the weights, from the flat buffer or directly
/// from cache.
struct GradientSink {
  const device::TensorLayout& weight;
  const device::TensorLayout& bias;
  const StepState& step;
  float* gradients;
  const FusedUpdate* fused;
  device::OutputGradients which = device::OutputGradients::both;
  bool first_slice = true;
  bool last_slice = true;

  bool of_hidden() const { return which != device::OutputGradients::weights; }
  bool of_weights() const { return which != device::OutputGradients::hidden; }
  bool updates() const { return fused != nullptr && last_slice; }
  /// Returns whether the flat gradient is not needed, because the complete gradient is in cache.
  bool stays_in_cache() const { return updates() && first_slice; }

  /// Updates the `n` flat elements from `begin`; `gradient` is their gradient.
  void update(const device::TensorLayout& tensor, std::int64_t begin, const float* gradient,
              std::int64_t n) const {
    Parameters& p = fused->parameters;
    update_elements(step.rule(tensor.spec.decays), gradient, fused->first_moment.data() + begin,
                    fused->second_moment.data() + begin, p.master().data() + begin, p.copy_of(begin), n);
  }

  /// Adds this slice's gradient of the `n` flat elements from `begin`; overwrites `slice`.
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

  /// Calls use(address, bytes) for all memory that take() will read for these elements.
  template <class Use>
  void for_needed_memory(std::int64_t begin, std::int64_t n, Use&& use) const {
    if (!first_slice) use(gradients + begin, n * 4);
    if (!updates()) return;
    use(fused->parameters.master().data() + begin, n * 4);
    use(fused->first_moment.data() + begin, n * 4);
    use(fused->second_moment.data() + begin, n * 4);
  }
};

/// The output layer and its loss for a slice of users, in two passes over blocks of items. With softmax,
/// exponentials of the first pass become gradients in the second. SoftmaxLayer uses library products,
/// TileSoftmax a custom kernel. They do not share a loop over blocks, because sums would round differently.
/// SoftmaxLayer scales E by a factor per tile and user before the products and adds later slices within them.
/// TileSoftmax has one factor per user, moves it from E to the hidden units, and adds slices in the sink.
/// With the squared error, nothing depends on a whole row of logits, so the first pass only prepares
/// operands.
class LossSlice {
 public:
  virtual ~LossSlice() = default;
  /// Runs pass 1. Collective, since softmax needs the sums of all slices of the items.
  virtual void forward() = 0;
  /// Runs pass 2 for `items`: whole tiles of tile_items, except for the last one. The range that starts at 0
  /// must come first.
  virtual void backward(Range items, const GradientSink& sink) = 0;
  /// Returns the sum of the users' losses from the items of this rank. Must be called after pass 2 of all
  /// items.
  virtual double loss() const = 0;
  /// Adds the threads' parts of the users' rows of d_hidden (batch users, K). Must be called after pass 2 of
  /// all items.
  virtual void finish_hidden_gradient(float* d_hidden) const = 0;
};

std::unique_ptr<LossSlice> make_tile_softmax(const TileKernels& kernels, Workspace& workspace,
                                             const OutputSlice& slice);

}  // namespace vaecf::cpu
