#pragma once

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <vector>

#include "train/checkpoint/training_state.hpp"
#include "train/step/trainer.hpp"

namespace vaecf::train {

/// The checkpoint run.start_from, whose weights a new run starts with. Items are matched by id. All ranks
/// must call the functions in the same order.
class StartPoint {
 public:
  /// Reads the checkpoint, except tensors. Throws InputError on all ranks if the file is not a valid
  /// checkpoint, or does not fit the model of the run.
  explicit StartPoint(const Run& run);

  /// Overwrites the initial weights of the trainer. Items that the checkpoint does not contain keep their
  /// initial weights. Rank 0 reads one tensor at a time into host memory. Logs the number of items, and a
  /// warning if the checkpoint was trained on held-out users of the dataset. Collective.
  void load_weights(Trainer& trainer);

 private:
  const Run& run_;
  CheckpointReader checkpoint_;
  std::vector<std::int64_t> sources_;  // on rank 0: index of each item in the checkpoint; -1: new item
};

}  // namespace vaecf::train
