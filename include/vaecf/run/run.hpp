#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/config/training_config.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/models.hpp>
#include <vaecf/models/network_shape.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vaecf::run {

/// The ranks, the device and the outputs of a command. They must outlive every use.
struct RunContext {
  comm::Communicator& communicator;
  device::Device& device;
  Log& log;
  Progress& progress;
  const StopFlag* stop = nullptr;  ///< requests an early end with a checkpoint; may be null
  /// The division of the ranks into model-parallel groups; null: every rank holds all items.
  std::shared_ptr<const comm::RankGrid> grid = nullptr;

  int item_slices() const { return grid ? grid->item_slices() : 1; }
  int model_parallel_group() const { return grid ? grid->model_parallel_group() : communicator.rank(); }
  int model_parallel_groups() const { return grid ? grid->model_parallel_groups() : communicator.size(); }
  device::ModelParallelGroup& model_parallel() const {
    return grid ? grid->model_parallel() : device::single_rank();
  }
  /// Returns the data-parallel group: the ranks with the same item slice.
  comm::Communicator& data_parallel_ranks() const {
    return grid ? grid->data_parallel_ranks() : communicator;
  }

  /// Returns whether this rank was requested to stop.
  bool this_rank_asked_to_stop() const { return stop != nullptr && stop->requested(); }
  /// Returns whether any rank was requested to stop. Collective.
  bool any_rank_asked_to_stop() const {
    return communicator.all_reduce(std::int64_t{this_rank_asked_to_stop()}, comm::Reduction::max) == 1;
  }
};

/// Describes one start of the program, for its log, checkpoints and messages.
struct RunState {
  std::string configuration_text;  ///< YAML of every resolved key, for config.yaml and checkpoints
  std::string version;             ///< version of the program
  std::string commit;              ///< commit of the program; empty if unknown
  std::string id;                  ///< id of this start of the program for its events; empty: none
  std::vector<std::string> tasks;  ///< tasks of this command in order, such as train, test
  std::string resume_from;         ///< path of the checkpoint to resume from; empty: train from scratch
  std::string start_from;  ///< path of the checkpoint with the initial weights of a new run; empty: random
};

/// Everything that train(), solve(), test(), benchmark() and recommendations work with. It must outlive the
/// objects made with it.
struct Run : RunContext, RunState {
  const config::TrainingConfig& options;
  io::DatasetFile dataset;
};

/// Returns the input dimensions of the model: the items of the dataset, its user features unless
/// model.features is off, and the model-parallel group.
inline models::InputDims model_input_dims(
    const config::TrainingConfig& options, const io::DatasetFile& dataset,
    device::ModelParallelGroup& model_parallel = device::single_rank()) {
  const bool uses_features =
      options.model.features != models::FeaturesInput::off && models::facts_of(options.model.type).features;
  return {dataset.items(), uses_features ? dataset.features() : 0, model_parallel};
}

}  // namespace vaecf::run
