#include "models/linear/sparse_graph.hpp"

#include <vaecf/io/stored_tensors.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/linear/low_rank.hpp"
#include "models/linear/sparse_weights.hpp"
#include "models/onnx_graph.hpp"

namespace vaecf::models {
namespace {

/// Adds the nodes that compute "scores" from "sparse_scores" and the term: the product of x and the factors,
/// that with all items, without what an item adds to its own score.
void add_low_rank(const io::CheckpointFile& file, OnnxGraph& nodes, io::OnnxModel& graph) {
  nodes.add_weights("items", "factors");
  const auto add_scales = [&](const char* name, const char* path) {
    std::vector<float> values = file.read_array<float>(path);
    const std::int64_t items = std::ssize(values);
    graph.initializers.push_back(io::constant_tensor(name, {items}, std::move(values)));
  };
  add_scales("items.factor_source", factor_source_name);
  add_scales("items.factor_target", factor_target_name);
  graph.initializers.push_back(io::constant_tensor("axis_2", {1}, std::vector<std::int64_t>{2}));
  nodes.add("Max", {"items", "zero"}, "own");                                              // (B, N)
  nodes.add("Gather", {"items.factors", "own"}, "own_factors", {{"axis", 0}});             // (B, N, H)
  nodes.add("Gather", {"items.factor_source", "own"}, "own_source");                       // (B, N)
  nodes.add("Gather", {"items.factor_target", "own"}, "own_target");                       // (B, N)
  nodes.add("Mul", {"items.held", "own_source"}, "scaled");                                // (B, N)
  nodes.add("Unsqueeze", {"scaled", "axis_1"}, "scaled_row");                              // (B, 1, N)
  nodes.add("MatMul", {"scaled_row", "own_factors"}, "user_row");                          // (B, 1, H)
  nodes.add("Squeeze", {"user_row", "axis_1"}, "user_factors");                            // (B, H)
  nodes.add("Gemm", {"user_factors", "items.factors"}, "products", {{"transB", 1}});       // (B, I)
  nodes.add("Mul", {"products", "items.factor_target"}, "low_rank");                       // (B, I)
  nodes.add("Add", {"sparse_scores", "low_rank"}, "all_scores");                           // (B, I)
  nodes.add("Mul", {"own_factors", "own_factors"}, "factor_squares");                      // (B, N, H)
  nodes.add("ReduceSum", {"factor_squares", "axis_2"}, "own_squares", {{"keepdims", 0}});  // (B, N)
  nodes.add("Mul", {"scaled", "own_squares"}, "own_products");
  nodes.add("Mul", {"own_products", "own_target"}, "own_scores");
  nodes.add("Neg", {"own_scores"}, "own_change");
  nodes.add("ScatterElements", {"all_scores", "own", "own_change"}, "scores",
            {{"axis", 1}, {"reduction", "add"}});
}

}  // namespace

void add_sparse_graph(const io::CheckpointFile& file, io::OnnxModel& graph) {
  graph.opset = 16;
  const auto add_array = [&]<class T>(const std::string& name, std::vector<std::int64_t> shape,
                                      std::vector<T> values) {
    graph.initializers.push_back(io::constant_tensor(name, std::move(shape), std::move(values)));
  };
  auto [begin, indices, data] = read_sparse_weights(file);
  // Padding, -1, reads the row at the end of `begin` and `size`, which is empty.
  const std::int64_t rows = std::ssize(begin);
  std::vector<std::int64_t> size(begin.size(), 0);
  for (std::size_t i = 0; i + 1 < size.size(); ++i) size[i] = begin[i + 1] - begin[i];
  add_array("items.begin", {rows}, std::move(begin));
  add_array("items.size", {rows}, std::move(size));
  const std::int64_t entries = std::ssize(data);
  add_array("items.indices", {entries}, std::move(indices));
  add_array("items.data", {entries}, std::move(data));
  add_array("unit", {}, std::vector<std::int64_t>{1});
  add_array("axis_0", {1}, std::vector<std::int64_t>{0});
  add_array("flat", {1}, std::vector<std::int64_t>{-1});
  add_array("item_count", {}, std::vector{rows - 1});
  add_array("scores_shape", {2}, std::vector{std::int64_t{-1}, rows - 1});

  OnnxGraph nodes(file, graph);
  const auto add = [&](const std::string& op, std::vector<std::string> inputs, const std::string& output) {
    nodes.add(op, std::move(inputs), output);
  };
  // The M = B N elements of x and their rows.
  add("Reshape", {nodes.add_values("items"), "flat"}, "x");
  add("Reshape", {"items", "flat"}, "row");
  add("Gather", {"items.begin", "row"}, "row_begin");
  add("Gather", {"items.size", "row"}, "row_size");
  add("CumSum", {"row_size", "zero"}, "end");

  // The element of x for each of the T entries of these rows: the number of rows that end before.
  nodes.add("ReduceSum", {"row_size", "axis_0"}, "total", {{"keepdims", 0}});
  add("Range", {"zero", "total", "unit"}, "place");
  add("Add", {"total", "axis_1"}, "place_shape");  // (1)
  add("Expand", {"zero", "place_shape"}, "no_ends");
  add("Shape", {"end"}, "element_shape");
  add("Expand", {"unit", "element_shape"}, "ones");
  nodes.add("ScatterElements", {"no_ends", "end", "ones"}, "ends", {{"axis", 0}, {"reduction", "add"}});
  add("CumSum", {"ends", "zero"}, "ended");
  add("Gather", {"ended", "place"}, "element");

  // Its column of B and its term of the sum.
  add("Sub", {"end", "row_size"}, "start");
  add("Sub", {"row_begin", "start"}, "shift");
  add("Gather", {"shift", "element"}, "element_shift");
  add("Add", {"place", "element_shift"}, "entry");
  add("Gather", {"items.indices", "entry"}, "index");
  nodes.add("Cast", {"index"}, "target", {{"to", 7}});  // int64
  add("Gather", {"items.data", "entry"}, "weight");
  add("Gather", {"x", "element"}, "element_x");
  add("Mul", {"element_x", "weight"}, "term");

  // The sums of the terms, in a flat array of B I scores.
  add("Shape", {"items"}, "shape");
  add("Gather", {"shape", "unit"}, "longest");
  add("Max", {"longest", "unit"}, "width");  // runtimes refuse 0, even to divide nothing
  add("Div", {"element", "width"}, "user");
  add("Mul", {"user", "item_count"}, "user_begin");
  add("Add", {"user_begin", "target"}, "score");
  add("Gather", {"shape", "axis_0"}, "users");
  add("Mul", {"users", "item_count"}, "flat_shape");
  add("ConstantOfShape", {"flat_shape"}, "no_scores");
  nodes.add("ScatterElements", {"no_scores", "score", "term"}, "flat_scores",
            {{"axis", 0}, {"reduction", "add"}});
  const bool has_term = has_low_rank(file);
  add("Reshape", {"flat_scores", "scores_shape"}, has_term ? "sparse_scores" : "scores");
  if (has_term) add_low_rank(file, nodes, graph);
}

}  // namespace vaecf::models
