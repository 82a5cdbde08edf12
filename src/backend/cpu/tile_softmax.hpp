#pragma once

#include <cstdint>

#include "gradient_sink.hpp"
#include "tile_slice.hpp"

namespace vaecf::cpu {

/// One slice of users through the output layer in bf16, by a kernel of our own, in two passes over blocks of
/// 32 items, each of which reads the weights once.
///
/// Pass 1 makes tiles of transposed logits (items x users) and keeps E = exp(logit - m_u) in bf16. The
/// reference m_u is fixed before: the user's largest logit among the first items. So one factor per user,
/// s_u = N_u / (sum of E), turns E into the gradient N_u softmax - x = s_u (E - x / s_u), and E itself is
/// never scaled. A user whose logits leave the reference far behind would overflow: then the pass is done
/// again with the largest logits as references.
/// Pass 2 subtracts x / s_u at the few places where x is 1 and multiplies: dW = E^T (s H), with s in a column
/// of its own for the bias, and d_hidden = s (E W), by chunks of blocks. Finished gradients go to the sink
/// out of the cache.
class TileSoftmax : private TileSlice {
 public:
  static constexpr std::int64_t items_per_block = tile_side;

  TileSoftmax(const TileKernels& kernels, TileWorkspace& workspace, const OutputSlice& slice);

  /// Pass 1; returns the slice's negative log-likelihood.
  double forward(bool keep_exponentials);
  /// Pass 2 over some blocks; those from 0 on have to come first.
  void backward(Range blocks, const GradientSink& sink);
  /// When all blocks are through.
  void finish_hidden_gradient(CpuActivations& d_hidden) const;

  std::int64_t blocks() const { return blocks_; }

 private:
  std::int64_t rows_of(std::int64_t block) const;
  std::uint16_t* exponentials(std::int64_t block) const;
  void pack_weights(std::int64_t block, std::int64_t tile, std::uint16_t* to) const;
  void load_hidden();
  void weigh_hidden();
  void choose_references();
  void run_pass(bool keep_exponentials);
  bool raise_references();
  void forward_block(PerThread& mine, std::int64_t block, bool keep_exponentials);
  void sort_own_items(PerThread& mine, std::int64_t block) const;
  double finish_softmax();
  void subtract_own_items(std::int64_t block) const;
  void add_hidden_gradient(PerThread& mine, Range chunk) const;
  void weight_gradient(PerThread& mine, std::int64_t block, const GradientSink& sink) const;

  std::int64_t blocks_;
  std::int64_t width_;
};

}  // namespace vaecf::cpu
