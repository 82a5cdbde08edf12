#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/model.hpp>

#include <functional>

namespace vaecf::models {

/// Reads the weights of a checkpoint on rank 0, for all ranks. All ranks must call the functions in the same
/// order. Errors are InputErrors, thrown on all ranks.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  /// Calls `read` with the file on rank 0 only. Collective.
  virtual void read_file(const std::function<void(const io::CheckpointFile&)>& read) = 0;
  /// Reads the weights of a model, in blocks of rows. Throws InputError if tensors are missing or have other
  /// shapes than those of the model. Collective.
  virtual void load_weights(Model& model) = 0;
};

}  // namespace vaecf::models
