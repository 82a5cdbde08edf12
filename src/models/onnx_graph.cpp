#include "models/onnx_graph.hpp"

#include <vaecf/io/stored_tensors.hpp>

#include <limits>

namespace vaecf::models {

OnnxGraph::OnnxGraph(const io::CheckpointFile& file, io::OnnxModel& model)
    : file_(file), model_(model), weighted_(file.attributes().contains("interaction_weights")) {
  model_.initializers.push_back(io::constant_tensor("zero", {}, std::vector<std::int64_t>{0}));
  model_.initializers.push_back(io::constant_tensor("axis_1", {1}, std::vector<std::int64_t>{1}));
}

void OnnxGraph::add(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                    std::map<std::string, std::variant<std::int64_t, std::string>> attributes) {
  model_.nodes.push_back({op, std::move(inputs), output, std::move(attributes)});
}

void OnnxGraph::add_weights(const std::string& layer, const std::string& part, std::int64_t columns,
                            std::function<void(std::span<float> row)> change) {
  model_.initializers.push_back(io::stored_tensor(file_, layer, part, columns, std::move(change)));
}

void OnnxGraph::add_constant(const std::string& name, float value) {
  model_.initializers.push_back(io::constant_tensor(name, {}, std::vector{value}));
}

std::string OnnxGraph::add_values(const std::string& input) {
  const auto in = [&](const char* part) { return input + "." + part; };
  add("GreaterOrEqual", {input, "zero"}, in("there"));
  const bool weighted = weighted_ && input == "items";
  add("Cast", {in("there")}, in(weighted ? "ones" : "held"), {{"to", 1}});  // float32
  if (weighted) add("Mul", {in("ones"), "interaction_weights"}, in("held"));
  return in("held");
}

std::string OnnxGraph::add_input_product(const std::string& input, const std::string& layer,
                                         const std::string& table, std::int64_t columns, bool normalized,
                                         std::function<void(std::span<float> row)> change) {
  const auto in = [&](const char* part) { return input + "." + part; };
  add_weights(layer, table, columns, std::move(change));
  const std::string values = add_values(input);
  add("Max", {input, "zero"}, in("columns"));                                      // (B, N)
  add("Gather", {layer + "." + table, in("columns")}, in("rows"), {{"axis", 0}});  // (B, N, H)
  add("Unsqueeze", {values, "axis_1"}, in("held_row"));                            // (B, 1, N)
  add("MatMul", {in("held_row"), in("rows")}, in("sum_row"));                      // (B, 1, H)
  add("Squeeze", {in("sum_row"), "axis_1"}, in("sum"));                            // (B, H)
  if (!normalized) return in("sum");
  if (positive_.empty()) {
    positive_ = weighted_ ? "positive" : "one";
    add_constant(positive_, weighted_ ? std::numeric_limits<float>::min() : 1.0F);
  }
  const bool weighted = weighted_ && input == "items";
  if (weighted) add("Mul", {values, values}, in("squares"));
  add("ReduceSum", {weighted ? in("squares") : values, "axis_1"}, in("number"), {{"keepdims", 1}});  // (B, 1)
  add("Max", {in("number"), positive_}, in("positive_number"));
  add("Sqrt", {in("positive_number")}, in("norm"));
  add("Div", {in("sum"), in("norm")}, in("product"));
  return in("product");
}

}  // namespace vaecf::models
