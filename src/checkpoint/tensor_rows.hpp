#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/training/trainer.hpp>

#include <span>
#include <vector>

namespace vaecf::checkpoint {

/// The elements of some logical rows of a tensor that a rank stores, row-major.
struct StoredRows {
  Range rows;  ///< stored rows
  std::span<const float> values;
  std::vector<float> memory;  ///< memory of `values`; empty if the rank stores all elements
};

/// Returns the part of rows `rows` of the logical tensor that a rank with `spec` stores. `logical` contains
/// these rows, row-major, and must outlive the result.
StoredRows stored_rows(const device::TensorSpec& spec, Range rows, std::span<const float> logical);

/// The state of a training whose tensors of items are divided over a model-parallel group. Rank 0
/// reads logical rows, which it gathers from the model-parallel group block by block, so that no rank stores
/// the whole model. While rank 0 reads, the other ranks of its model-parallel group must be in serve();
/// training waits meanwhile.
class GatheredState {
 public:
  /// For the ranks of the first model-parallel group. `trainer` must outlive this object.
  GatheredState(const Context& context, training::Trainer& trainer)
      : context_(context), trainer_(trainer), specs_(trainer.model().tensors()) {}

  /// Reads logical rows of a tensor, on rank 0.
  void read_rows(training::StateTensor state, int tensor, Range rows, std::span<float> to);
  /// Ends serve() on the other ranks of the model-parallel group; for rank 0.
  void finish();
  /// Takes part in the calls of read_rows() of rank 0, until finish(). For the other ranks of the
  /// model-parallel group.
  void serve();

 private:
  /// Gathers stored rows of every rank; `to` is used on rank 0 only.
  void gather(training::StateTensor state, int tensor, Range rows, std::span<float> to);

  Context context_;
  training::Trainer& trainer_;
  std::vector<device::TensorSpec> specs_;
  std::vector<float> part_;
  std::vector<float> parts_;
};

}  // namespace vaecf::checkpoint
