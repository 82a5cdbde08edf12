#pragma once

#include <vaecf/models/kind.hpp>

#include <memory>
#include <span>
#include <vector>

#include "models/network/network_shape.hpp"

namespace vaecf::models {

/// A network of layers.
class NetworkKind : public TrainedKind {
 public:
  using TrainedKind::TrainedKind;

  /// Returns the layers. Throws InputError if `options` are not valid for the model.
  virtual NetworkShape shape(const ModelOptions& options, InputDims inputs) const = 0;

  std::vector<device::TensorSpec> tensors(const ModelOptions& options, InputDims inputs) const override {
    return tensor_specs(shape(options, inputs));
  }
  std::unique_ptr<Reasons> reasons(TrainableModel& model, WeightReader& reader,
                                   const Context& context) const override;
  std::vector<io::ExportTensor> arrays(const io::CheckpointFile& file,
                                       const ModelOptions& options) const override;
  void add_graph(const io::CheckpointFile& file, const ModelOptions& options,
                 io::OnnxModel& graph) const override;

 private:
  /// Returns the layers of the model of a checkpoint.
  NetworkShape stored_shape(const io::CheckpointFile& file, const ModelOptions& options) const;
};

}  // namespace vaecf::models
