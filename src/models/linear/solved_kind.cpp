#include <vaecf/base/aligned_array.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/io/stored_tensors.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "models/linear/dense_scores.hpp"
#include "models/linear/linear_reasons.hpp"
#include "models/linear/low_rank.hpp"
#include "models/linear/sparse_graph.hpp"
#include "models/linear/sparse_weights.hpp"
#include "models/onnx_graph.hpp"

// Weights between items in a checkpoint: how they are read, explained and exported.
namespace vaecf::models {
namespace {

constexpr std::int64_t broadcast_elements = std::int64_t{4} << 20;

class StoredDenseModel final : public ItemModel {
 public:
  explicit StoredDenseModel(AlignedArray<float> matrix, std::int64_t items)
      : matrix_(std::move(matrix)), items_(items) {}
  void score(const SparseRow& history, std::span<float> scores) const override {
    score_all(std::span(&history, 1), scores);
  }
  void score_all(std::span<const SparseRow> users, std::span<float> scores) const override {
    const auto row_of = [this](std::int64_t item) { return matrix_.data() + item * items_; };
    dense_scores(users, row_of, items_, scores);
  }
  float weight(std::int32_t source, std::int32_t target) const override {
    return matrix_[source * items_ + target];
  }
  StoredWeights stored() const override {
    const auto read_rows = [this](std::int64_t begin, std::int64_t end, std::span<float> out) {
      std::ranges::copy(view(matrix_, {begin * items_, end * items_}), out.begin());
    };
    return {{{matrix_name, items_, items_, false, read_rows}}, {}};
  }
  bool is_dense() const override { return true; }
  std::int64_t users_at_once() const override { return dense_users_at_once; }

 private:
  AlignedArray<float> matrix_;  // (items, items)
  std::int64_t items_;
};

void require_valid(bool holds, const char* name) {
  if (!holds)
    throw InputError(
        format("/{} of the checkpoint is not valid for this dataset; solve the model again", name));
}

template <class T>
void broadcast_vector(std::vector<T>& values, comm::Communicator& ranks) {
  auto size = static_cast<std::int64_t>(values.size());
  ranks.broadcast(std::span(&size, 1), 0);
  values.resize(size);
  ranks.broadcast(std::span(values), 0);
}

std::shared_ptr<const ItemModel> read_dense(WeightReader& reader, const SolvedKind& kind, std::int64_t items,
                                            const Context& context) {
  comm::Communicator& ranks = context.communicator;
  const double bytes = 4.0 * static_cast<double>(items) * static_cast<double>(items);
  const double missing = ranks.all_reduce(missing_memory(bytes * ranks.local_size()), comm::Reduction::max);
  if (missing > 0.0) {
    throw comm::on_all_ranks(memory_error(format("the matrix of {}", kind.label()),
                                          bytes * ranks.local_size(), missing, kind.remedy({})));
  }
  reader.read_file([&](const io::CheckpointFile& file) {
    const auto* info = file.find_tensor(matrix_name);
    require_valid(info->rows == items && info->columns == items, matrix_name);
  });
  AlignedArray<float> matrix(items * items);
  const std::int64_t step = std::max<std::int64_t>(1, broadcast_elements / items);
  for (std::int64_t begin = 0; begin < items; begin += step) {
    const Range rows{begin, std::min(items, begin + step)};
    const auto values = view(matrix, {rows.begin * items, rows.end * items});
    reader.read_file(
        [&](const io::CheckpointFile& file) { file.read_rows(matrix_name, rows.begin, rows.end, values); });
    ranks.broadcast(values, 0);
    ranks.activity().note_progress();
  }
  return std::make_shared<StoredDenseModel>(std::move(matrix), items);
}

std::shared_ptr<const ItemModel> read_sparse(WeightReader& reader, std::int64_t items,
                                             const Context& context) {
  comm::Communicator& ranks = context.communicator;
  SparseWeights weights;
  std::optional<LowRankTerm> term;  // on rank 0
  reader.read_file([&](const io::CheckpointFile& file) {
    weights = read_sparse_weights(file);
    const auto entries = static_cast<std::int64_t>(weights.indices.size());
    require_valid(static_cast<std::int64_t>(weights.indptr.size()) == items + 1 &&
                      weights.indptr.front() == 0 && weights.indptr.back() == entries &&
                      std::ranges::is_sorted(weights.indptr),
                  indptr_name);
    require_valid(std::ranges::all_of(weights.indices, [&](std::int32_t i) { return i >= 0 && i < items; }),
                  indices_name);
    require_valid(weights.data.size() == weights.indices.size(), data_name);
    if (has_low_rank(file)) term = read_low_rank(file, items);
  });
  broadcast_vector(weights.indptr, ranks);
  broadcast_vector(weights.indices, ranks);
  broadcast_vector(weights.data, ranks);
  return share_low_rank(std::make_shared<SparseWeights>(std::move(weights)), term ? &*term : nullptr, items,
                        context);
}

/// Reads the weights of a checkpoint with `items` items; every rank has all of them afterwards.
std::shared_ptr<const ItemModel> read_item_model(WeightReader& reader, const SolvedKind& kind,
                                                 std::int64_t items, const Context& context) {
  std::int64_t dense = 0;
  reader.read_file([&](const io::CheckpointFile& file) {
    const auto& stored = file.attribute<std::string>("model_type");
    if (stored != kind.name())
      throw InputError(format(
          "model.type is {}, but the checkpoint contains a model of type {}; use the configuration of its run",
          kind.name(), excerpt(stored)));
    dense = file.find_tensor(matrix_name) != nullptr;
  });
  context.communicator.broadcast(std::span(&dense, 1), 0);
  return dense > 0 ? read_dense(reader, kind, items, context) : read_sparse(reader, items, context);
}

class ItemReasons final : public LinearReasons {
 public:
  ItemReasons(std::shared_ptr<const ItemModel> model, int threads)
      : LinearReasons(threads), model_(std::move(model)) {}

 private:
  float contribution(std::int32_t source, float x, std::int32_t item, double /*norm*/) const override {
    return x * model_->weight(source, item);
  }
  double scale(const SparseRow& /*history*/, double /*norm*/) const override { return 0.0; }

  std::shared_ptr<const ItemModel> model_;
};

template <class T>
io::ExportTensor array_of(const char* name, std::vector<T> values) {
  const std::int64_t size = std::ssize(values);
  return io::constant_tensor(name, {size}, std::move(values));
}

}  // namespace

LoadedModel SolvedKind::load(WeightReader& reader, const ModelOptions& /*options*/, const InputDims& inputs,
                             const Context& context, std::int64_t /*max_users*/, bool explains) const {
  const std::shared_ptr<const ItemModel> model = read_item_model(reader, *this, inputs.items, context);
  LoadedModel loaded{make_item_scorer(model, inputs.items, context), nullptr};
  if (explains) loaded.reasons = std::make_unique<ItemReasons>(model, item_model_threads(context));
  return loaded;
}

std::vector<io::ExportTensor> SolvedKind::arrays(const io::CheckpointFile& file,
                                                 const ModelOptions& /*options*/) const {
  if (file.find_tensor(matrix_name) != nullptr) return {io::stored_tensor(file, "items", "matrix")};
  auto [indptr, indices, data] = read_sparse_weights(file);
  std::vector<io::ExportTensor> tensors;
  tensors.push_back(array_of("items.indptr", std::move(indptr)));
  tensors.push_back(array_of("items.indices", std::move(indices)));
  tensors.push_back(array_of("items.data", std::move(data)));
  if (has_low_rank(file)) {
    tensors.push_back(io::stored_tensor(file, "items", "factors"));
    tensors.push_back(array_of("items.factor_source", file.read_array<float>(factor_source_name)));
    tensors.push_back(array_of("items.factor_target", file.read_array<float>(factor_target_name)));
  }
  return tensors;
}

void SolvedKind::add_graph(const io::CheckpointFile& file, const ModelOptions& /*options*/,
                           io::OnnxModel& graph) const {
  if (file.find_tensor(matrix_name) == nullptr) {
    add_sparse_graph(file, graph);
    return;
  }
  OnnxGraph nodes(file, graph);
  nodes.add("Identity", {nodes.add_input_product("items", "items", "matrix", 0, false)}, "scores");
}

}  // namespace vaecf::models
