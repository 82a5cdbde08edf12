#pragma once

#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/training/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::checkpoint {

/// Returns the number of rows per block in which tensors are sent to the other ranks: about 4 MiB.
inline std::int64_t block_rows(const device::TensorSpec& spec) {
  constexpr std::int64_t block_elements = 1 << 20;
  return std::max<std::int64_t>(models::min_block_rows,
                                block_elements / std::max<std::int64_t>(1, spec.logical_columns()));
}

/// Reads a checkpoint on rank 0 and broadcasts it to all ranks; any number of ranks may have written it. All
/// ranks must call the functions in the same order. Errors are InputErrors, thrown on all ranks.
class CheckpointReader final : public models::WeightReader {
 public:
  /// Reads the state. Throws InputError if the file is not a valid checkpoint.
  CheckpointReader(const std::string& path, const Context& context);
  /// Reads the state of an open file, on a single rank.
  CheckpointReader(const io::CheckpointFile& file, const Context& context);

  const TrainingState& state() const { return state_; }
  void read_file(const std::function<void(const io::CheckpointFile&)>& read) override {
    comm::run_on_root(context_.communicator, [&] { read(*file_); });
  }
  /// Throws InputError if the checkpoint was trained on another dataset than `dataset`, or with other
  /// user features than its model has.
  void require_trained_on(const models::ModelOptions& options, const io::DatasetFile& dataset) const;
  void load_weights(models::Model& model) override;
  /// Restores weights, moments, the prior, counts and loss scale of the trainer. The batches and losses of
  /// the current epoch are not restored (Trainer::start_epoch, set_losses). Throws InputError if the tensors
  /// or the counts do not match the trainer.
  void restore(training::Trainer& trainer);

 private:
  /// Passes the tensors whose names begin with `prefix`/ to `write` on all ranks, in blocks of rows. The
  /// index of the first one is `first`.
  void read(const std::string& prefix, const std::vector<device::TensorSpec>& specs,
            const training::WriteRows& write, std::int64_t first = 0);

  std::string path_;
  Context context_;
  std::optional<io::CheckpointFile> file_;  // on rank 0
  TrainingState state_;
};

/// Throws InputError unless the tensors whose names begin with `prefix`/ in the checkpoint at `path` are
/// `specs`.
void check_shapes(const std::string& path, const io::CheckpointFile& file,
                  const std::vector<device::TensorSpec>& specs, const std::string& prefix);

}  // namespace vaecf::checkpoint
