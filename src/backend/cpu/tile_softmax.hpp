#pragma once

#include <cstdint>
#include <vector>

#include "gradient_sink.hpp"
#include "storage.hpp"
#include "tile_kernels.hpp"

namespace vaecf::cpu {

/// Scratch memory of TileSoftmax, kept between steps. Tiles in the order in which products walk them.
struct TileWorkspace {
  struct PerThread {
    AlignedArray<std::uint16_t> weights;  // a block of items, (K tiles); then a chunk's, (K tiles, blocks)
    AlignedArray<std::uint16_t> e;        // of a chunk, transposed: (user tiles, blocks)
    AlignedArray<float> d_hidden;         // this thread's share: (K tiles, user tiles)
    AlignedArray<float> d_weights;        // of a block: (32, K)
    AlignedArray<float> logits;           // a tile
    AlignedArray<std::uint16_t> tile;     // two tiles to convert in
    std::vector<double> sum;              // (width): of the exponentials
    std::vector<double> own_logits;       // (width): sum of the logits of the user's items
    std::vector<float> largest;           // (width): of logit - reference
    std::vector<std::uint16_t> own;       // places in a tile of the users' own items, by user tile
    std::vector<std::int32_t> own_begin;
  };

  std::vector<PerThread> threads;
  AlignedArray<std::uint16_t> e;                // (item blocks, user tiles)
  AlignedArray<std::uint16_t> hidden;           // (user tiles, K tiles), paired along K
  AlignedArray<std::uint16_t> weighted_hidden;  // (tiles of K + 1, user tiles), paired along the users
  std::vector<float> reference;                 // (width)
  std::vector<float> factor;                    // (width): N_u / sum of exponentials
};

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
class TileSoftmax {
 public:
  static constexpr std::int64_t items_per_block = tile_side;

  TileSoftmax(const TileKernels& kernels, TileWorkspace& workspace, int threads, const CpuActivations& hidden,
              const CpuBatch& batch, const CpuParameters& parameters, backend::Layer layer, Range users);

  /// Pass 1; returns the slice's negative log-likelihood.
  double forward(bool keep_exponentials);
  /// Pass 2 over some blocks; those from 0 on have to come first.
  void backward(Range blocks, const GradientSink& sink);
  /// When all blocks are through.
  void finish_hidden_gradient(CpuActivations& d_hidden) const;

  std::int64_t blocks() const { return blocks_; }

 private:
  using PerThread = TileWorkspace::PerThread;

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

  const TileKernels& kernels_;
  TileWorkspace& w_;
  int threads_;
  const CpuActivations& hidden_;
  const CpuBatch& batch_;
  Range users_;
  std::int64_t k_;
  std::int64_t k_tiles_;
  std::int64_t items_;
  std::int64_t blocks_;
  std::int64_t user_tiles_;
  std::int64_t width_;
  const float* bias_;
  const std::uint16_t* weights_;  // (padded items, K)
};

}  // namespace vaecf::cpu
