#pragma once

#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::checkpoint {

/// A checkpoint (--start-from), whose weights a new run starts with. Items are matched by id. All ranks
/// must call the functions in the same order.
class StartPoint {
 public:
  /// Reads the checkpoint, except tensors. Throws InputError on all ranks if the file is not a valid
  /// checkpoint, or does not fit the model of the run.
  StartPoint(const Context& context, const models::ModelOptions& options, const io::DatasetFile& dataset,
             const std::string& path);

  /// Overwrites the initial weights of the trainer. Items that the checkpoint does not contain keep their
  /// initial weights. Rank 0 reads one tensor at a time into host memory. Logs the number of items, and a
  /// warning if the checkpoint was trained on held-out users of the dataset. Collective.
  void load_weights(training::Trainer& trainer);

 private:
  Context context_;
  const io::DatasetFile& dataset_;
  std::string path_;
  CheckpointReader checkpoint_;
  std::vector<std::int64_t> sources_;  // on rank 0: index of each item in the checkpoint; -1: new item
};

/// Checks the checkpoint `path` to start from. Collective. Throws InputError on all ranks if it is not valid,
/// or its weights do not fit the model of the run.
void validate_start(const Context& context, const models::ModelOptions& options,
                    const io::DatasetFile& dataset, const std::string& path);

}  // namespace vaecf::checkpoint
