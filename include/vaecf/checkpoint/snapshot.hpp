#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/training/state_copy.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::checkpoint {

/// The content of a checkpoint on rank 0: a copy of the training state, weights and moments (three times the
/// size of the weights) that allows writing it while training continues.
class Snapshot {
 public:
  /// Reads logical rows of a tensor, as StateCopy::read_rows() does.
  using ReadRows =
      std::function<void(training::StateTensor state, int tensor, Range rows, std::span<float> to)>;

  /// Without `copy`, as on ranks other than 0, it only takes part in take().
  explicit Snapshot(std::unique_ptr<training::StateCopy> copy = nullptr) : copy_(std::move(copy)) {}
  /// For ranks that share the items: write() reads the tensors by `read`, which must outlive that call.
  explicit Snapshot(ReadRows read) : read_(std::move(read)) {}

  /// Copies state and tensors to rank 0; if ranks share the items, tensors are not copied, and write() reads
  /// them as they are then. Collective. The options of the trainer must outlive this object.
  void take(const Context& context, const TrainingState& state, training::Trainer& trainer);
  /// Writes the checkpoint. May be called on rank 0 from any thread, but not during take(). Throws RunError
  /// if writing fails, and Diverged if a value is not finite, so that such a checkpoint never replaces a good
  /// one.
  void write(const std::string& path) const;

  std::int64_t epoch() const { return state_.epoch; }
  std::int64_t step() const { return state_.updates_done; }
  /// Returns the name of the file to resume from.
  std::string name() const;

  struct Diverged : RunError {
    using RunError::RunError;
  };

 private:
  TrainingState state_;
  std::vector<device::TensorSpec> specs_;
  Range prior_tensors_;  // indices; empty without a prior
  std::vector<std::int64_t> updates_by_parameter_group_;
  std::unique_ptr<training::StateCopy> copy_;
  ReadRows read_;
  const training::Options* options_ = nullptr;
  std::int64_t item_slices_ = 1;
};

}  // namespace vaecf::checkpoint
