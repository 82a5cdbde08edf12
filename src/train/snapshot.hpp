#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <string>
#include <vector>

#include "run_state.hpp"

namespace vaecf::train {

/// A copy of all that a checkpoint holds, in rank 0's memory, so that it can be written while training goes
/// on: three times the weights.
class Snapshot {
 public:
  /// Collective; the copy is made on rank 0. RunError on all ranks where a value is no number: such a
  /// checkpoint must not replace a good one.
  void take(const SessionOptions& options, const Services& services, const RunState& state,
            const DatasetMark& dataset, Trainer& trainer);

  /// On rank 0, from any thread, while no take() is under way. RunError.
  void write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    bool vector = false;
    std::vector<float> values;
  };
  void make_room(const std::vector<backend::TensorSpec>& specs);

  io::Attributes attributes_;
  std::vector<Tensor> tensors_;  // of the weights, then of each moment
};

}  // namespace vaecf::train
