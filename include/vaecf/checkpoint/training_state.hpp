#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::checkpoint {

/// The names of the loss sums in a checkpoint.
inline constexpr std::array<const char*, 5> sum_names = {"nll", "kl", "weighted_kl", "users",
                                                         "skipped_steps"};

/// The least number of rows per block: an output table is stored by items, and slow to read row by row.
inline constexpr std::int64_t min_block_rows = 8;
/// Returns the number of rows per block in which tensors are sent to the other ranks: about 4 MiB.
inline std::int64_t block_rows(const device::TensorSpec& spec) {
  constexpr std::int64_t block_elements = 1 << 20;
  return std::max<std::int64_t>(min_block_rows,
                                block_elements / std::max<std::int64_t>(1, spec.logical_columns()));
}

/// The training state in a checkpoint except tensors: everything that a run needs to continue, and the
/// identity of its dataset. A Snapshot writes it, a CheckpointReader reads it; training_state.cpp lists the
/// fields once for both.
struct TrainingState {
  std::int64_t updates_done = 0;
  std::int64_t epoch = 0;          ///< number of completed epochs
  std::int64_t step_in_epoch = 0;  ///< number of completed steps of the next epoch
  std::int64_t users_seen = 0;
  double best_metric = 0.0;
  std::int64_t best_epoch = 0;              ///< 0: none yet
  std::int64_t validations_since_best = 0;  ///< early stopping compares it with train.patience
  double loss_scale = 0.0;                  ///< fp16 loss scale; 0 for other precisions
  std::int64_t loss_scale_good_steps = 0;
  /// The loss sums of the current epoch: for each of sum_names, the sum of each rank. Continuing them is
  /// bitwise exact only with the same number of ranks.
  std::array<std::vector<double>, sum_names.size()> epoch_sums;
  std::uint64_t file_checksum = 0;  ///< checksum of the file that the state was read from

  /// The metric that selects the best epoch, or "last", also if there is no validation.
  std::string select = "last";
  std::string configuration;
  std::int64_t items = 0;
  std::int64_t new_items = 0;  ///< those of the dataset; not read from checkpoints
  std::string weights;         ///< weights_of() the dataset; not read from checkpoints
  std::string dataset_checksum;
  std::int64_t features = 0;  ///< number of user features that the model reads; 0: none
  std::string feature_hashing;
  /// The part of the dataset that checkpoints contain, on rank 0. It is not read from checkpoints.
  std::shared_ptr<const io::DatasetSummary> dataset;

  /// Sets the selecting metric, the configuration, and the items, checksum and features of the dataset; also
  /// its summary, unless that is set. Collective.
  void describe(const run::Run& run, const std::string& metric);
  /// Returns whether `metric` of the completed epoch is larger than all previous ones, and updates the best
  /// epoch or counts the validations since then.
  bool update_best(double metric);
  /// Resets the best epoch, so that the next validation is the best so far.
  void reset_best();

  /// Gathers the sums of all ranks. Collective.
  void gather_sums(const device::LossSums& mine, comm::Communicator& communicator);
  /// Returns the sums that rank `rank` of `size` ranks continues. These are its own sums, or if the number of
  /// ranks has changed, the total on rank 0 and zeros on the others.
  device::LossSums sums_of(int rank, int size) const;
};

/// Returns the attributes of a checkpoint with `state`.
io::Attributes checkpoint_attributes(const config::TrainingConfig& options, const TrainingState& state);

/// The content of a checkpoint on rank 0: a copy of the training state, weights and moments (three times the
/// size of the weights) that allows writing it while training continues.
class Snapshot {
 public:
  /// Without `values`, as on ranks other than 0, it only takes part in take().
  explicit Snapshot(std::unique_ptr<training::StateCopy> values = nullptr) : values_(std::move(values)) {}

  /// Copies state and tensors to rank 0; if ranks share the items, tensors are not copied, and write() reads
  /// them as they are then. Collective. `run` must outlive this object.
  void take(const run::Run& run, const TrainingState& state, training::Trainer& trainer);
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
  std::unique_ptr<training::StateCopy> values_;
  const config::TrainingConfig* options_ = nullptr;
  std::int64_t item_slices_ = 1;
};

/// Reads a checkpoint on rank 0 and broadcasts it to all ranks; any number of ranks may have written it. All
/// ranks must call the functions in the same order. Errors are InputErrors, thrown on all ranks.
class CheckpointReader {
 public:
  /// Reads the state. Throws InputError if the file is not a valid checkpoint.
  CheckpointReader(const std::string& path, const run::RunContext& context);
  /// Reads the state of an open file, on a single rank.
  CheckpointReader(const io::CheckpointFile& file, const run::RunContext& context);

  const TrainingState& state() const { return state_; }
  /// Calls `read` with the file on rank 0 only. Errors of `read` are thrown on all ranks. Collective.
  void read_file(const std::function<void(const io::CheckpointFile&)>& read) {
    comm::run_on_root(context_.communicator, [&] { read(*file_); });
  }
  /// Throws InputError if the checkpoint was trained on another dataset than that of `run`, or with other
  /// user features than its model has.
  void require_trained_on(const run::Run& run) const;
  /// Reads the weights. Throws InputError if tensors are missing or have other shapes than those of the
  /// model.
  void load_weights(models::Model& model);
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
  run::RunContext context_;
  std::optional<io::CheckpointFile> file_;  // on rank 0
  TrainingState state_;
};

/// Reads the state of a checkpoint on the calling rank. Throws InputError if an attribute is missing or out
/// of range.
TrainingState read_training_state(const std::string& path, const io::CheckpointFile& file);

/// Broadcasts the state of rank 0 to all ranks. Collective.
void broadcast(TrainingState& state, comm::Communicator& communicator);

/// Throws InputError unless the tensors whose names begin with `prefix`/ in the checkpoint at `path` are
/// `specs`.
void check_shapes(const std::string& path, const io::CheckpointFile& file,
                  const std::vector<device::TensorSpec>& specs, const std::string& prefix);

/// Returns how the weights of interactions in the dataset were made from values: its attribute `weights`,
/// else "rating"; empty if it has no weights.
std::string weights_of(const io::DatasetFile& dataset);

/// Throws InputError unless the model of the checkpoint has the same user features as that of `run`.
void require_same_features(const std::string& path, const TrainingState& checkpoint, const run::Run& run);

/// Throws InputError if the checkpoint at `path` was trained on another dataset.
void require_same_dataset(const std::string& path, const TrainingState& checkpoint,
                          const io::DatasetFile& dataset);

/// Reads the item model of a checkpoint with `items` items; every rank has all weights afterwards.
/// Collective. Throws InputError on all ranks if the checkpoint contains another type than `type`, its arrays
/// are not consistent, or the weights exceed the free memory.
std::shared_ptr<const models::ItemModel> read_item_model(CheckpointReader& reader, models::ModelType type,
                                                         std::int64_t items, const run::RunContext& context);

/// Returns the name and values of a solved model for tables, such as "EASE l2 500". Collective.
std::string solution_title(CheckpointReader& reader, const run::RunContext& context);

/// Reads the model of a checkpoint, of any type, for batches of up to `max_users` users. Collective. Throws
/// InputError on all ranks if it does not match `options`.
std::unique_ptr<models::Scorer> load_scorer(CheckpointReader& reader, const config::TrainingConfig& options,
                                            const models::InputDims& inputs, const run::RunContext& context,
                                            std::int64_t max_users);

/// Returns the lower 32 bits of XXH64 (seed 0) of the users' ids as text, ascending.
std::vector<std::uint32_t> hash_users(const io::IdList& users);

/// Numbers of held-out users on which a checkpoint was trained.
struct KnownUsers {
  std::int64_t validation = 0;
  std::int64_t test = 0;
  bool by_chance = true;  ///< so few have equal hashes without being the same users
};

/// Looks up the validation and test users of `dataset` in the checkpoint, by their hashes. Users of /train
/// are not counted, and none of a split by time: these train on held-out users themselves. Throws InputError
/// if a file is not valid.
KnownUsers find_known_users(const io::CheckpointFile& checkpoint, const io::DatasetFile& dataset);

}  // namespace vaecf::checkpoint
