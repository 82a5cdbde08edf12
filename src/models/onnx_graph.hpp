#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/model_export.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::models {

/// Adds the nodes and weights of a model to an ONNX graph, whose inputs are "items", "weights" if the dataset
/// has weights of interactions, and "features" if the model has features.
class OnnxGraph {
 public:
  /// Both must outlive this object.
  OnnxGraph(const io::CheckpointFile& file, io::OnnxModel& model);

  void add(const std::string& op, std::vector<std::string> inputs, const std::string& output,
           std::map<std::string, std::int64_t> attributes = {});
  /// Adds weights of the checkpoint as LAYER.PART; see io::stored_tensor().
  void add_weights(const std::string& layer, const std::string& part, std::int64_t columns = 0,
                   std::function<void(std::span<float> row)> change = nullptr);
  void add_constant(const std::string& name, float value);
  /// Adds the product x @ table, where x (users, columns) is 1, or for items of a model with weights the
  /// weight, in the columns listed in `input`: the sum of their rows of LAYER.TABLE, which is added too. If
  /// `normalized` is set, the sum is divided by the norm of x. Returns the name of the result.
  std::string add_input_product(const std::string& input, const std::string& layer, const std::string& table,
                                std::int64_t columns, bool normalized,
                                std::function<void(std::span<float> row)> change = nullptr);

 private:
  const io::CheckpointFile& file_;
  io::OnnxModel& model_;
  bool weighted_;
  std::string positive_;  // at most the square of a row's norm
};

}  // namespace vaecf::models
