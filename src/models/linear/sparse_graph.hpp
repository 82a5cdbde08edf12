#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/model_export.hpp>

namespace vaecf::models {

/// Adds the nodes and weights that compute "scores" = x B for a sparse matrix B (items, items) of a
/// checkpoint, and the low-rank term if the checkpoint has it. The rows of a user's items are concatenated,
/// and each entry is added to the score of its column, in the order of the items. Requires opset 16, since
/// which ScatterElements can add.
void add_sparse_graph(const io::CheckpointFile& file, io::OnnxModel& graph);

}  // namespace vaecf::models
