#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/model_export.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vaecf::models {

/// Adds the nodes and weights of a model to an ONNX graph, whose inputs are "items", "interaction_weights" if
/// the dataset has interaction weights, and "user_features" if the model has features.
class OnnxGraph {
 public:
  /// Both must outlive this object.
  OnnxGraph(const io::CheckpointFile& file, io::OnnxModel& model);

  void add(const std::string& op, std::vector<std::string> inputs, const std::string& output,
           std::map<std::string, std::variant<std::int64_t, std::string>> attributes = {});
  /// Adds weights of the checkpoint as LAYER.PART; see io::stored_tensor().
  void add_weights(const std::string& layer, const std::string& part, std::int64_t columns = 0,
                   std::function<void(std::span<float> row)> change = nullptr);
  void add_constant(const std::string& name, float value);
  /// Adds the values x (B, N) of the elements of `input`: 1, or for items of a model with interaction weights
  /// the weight; 0 for padding. Returns their name.
  std::string add_values(const std::string& input);
  /// Adds the product x @ table for users x: the weighted sum of the rows of LAYER.TABLE, which is added too,
  /// that `input` lists. If `normalized` is set, the sum is divided by the norm of x. Returns the name of the
  /// result.
  std::string add_input_product(const std::string& input, const std::string& layer, const std::string& table,
                                std::int64_t columns, bool normalized,
                                std::function<void(std::span<float> row)> change = nullptr);

 private:
  const io::CheckpointFile& file_;
  io::OnnxModel& model_;
  bool weighted_;
  std::string positive_;  // at most the square of a row's norm; empty: not added yet
};

}  // namespace vaecf::models
