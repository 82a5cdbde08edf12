#pragma once

#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/config/training_config.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <string>
#include <vector>

namespace vaecf::run {

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
struct Run : Context, RunState {
  const config::TrainingConfig& options;
  io::DatasetFile dataset;

  checkpoint::RunFolder folder() const {
    return {options.run_folder(),
            configuration_text,
            resume_from,
            options.run.keep,
            options.run.checkpoint_every.epochs == config::CheckpointEvery::automatic,
            options.run.retry_seconds};
  }
};

}  // namespace vaecf::run
