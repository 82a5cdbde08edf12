#include <vaecf/base/aligned_array.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/load_scorer.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/item/solvers.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <span>

namespace vaecf::checkpoint {
namespace {

constexpr std::int64_t broadcast_elements = std::int64_t{4} << 20;

class StoredDenseModel final : public models::ItemModel {
 public:
  explicit StoredDenseModel(AlignedArray<float> matrix, std::int64_t items)
      : matrix_(std::move(matrix)), items_(items) {}
  void score(const SparseRow& history, std::span<float> scores) const override {
    std::ranges::fill(scores, 0.0F);
    models::for_elements(history, [&](std::int64_t item, float x) {
      const std::span<const float> weights = view(matrix_, {item * items_, (item + 1) * items_});
      for (std::size_t j = 0; j < scores.size(); ++j) scores[j] += x * weights[j];
    });
  }
  float weight(std::int32_t source, std::int32_t target) const override {
    return matrix_[source * items_ + target];
  }
  models::StoredWeights stored() const override {
    const auto read_rows = [this](std::int64_t begin, std::int64_t end, std::span<float> out) {
      std::ranges::copy(view(matrix_, {begin * items_, end * items_}), out.begin());
    };
    return {{{models::matrix_name, items_, items_, false, read_rows}}, {}};
  }
  bool is_dense() const override { return true; }

 private:
  AlignedArray<float> matrix_;  // (items, items)
  std::int64_t items_;
};

void require(bool holds, const char* name) {
  if (!holds)
    throw InputError(format(
        "/weights/items/{} of the checkpoint is not valid for this dataset; solve the model again", name));
}

template <class T>
void broadcast_vector(std::vector<T>& values, comm::Communicator& ranks) {
  auto size = static_cast<std::int64_t>(values.size());
  ranks.broadcast(std::span(&size, 1), 0);
  values.resize(size);
  ranks.broadcast(std::span(values), 0);
}

std::shared_ptr<const models::ItemModel> read_dense(CheckpointReader& reader, std::int64_t items,
                                                    const Context& context) {
  comm::Communicator& ranks = context.communicator;
  const double bytes = 4.0 * static_cast<double>(items) * static_cast<double>(items);
  const double missing = ranks.all_reduce(missing_memory(bytes * ranks.local_size()), comm::Reduction::max);
  if (missing > 0.0) {
    throw comm::on_all_ranks(
        memory_error("the matrix of EASE", bytes * ranks.local_size(), missing, "model.ease.neighbors: 300"));
  }
  reader.read_file([&](const io::CheckpointFile& file) {
    const auto* info = file.find_tensor(models::matrix_name);
    require(info->rows == items && info->columns == items, "matrix");
  });
  AlignedArray<float> matrix(items * items);
  const std::int64_t step = std::max<std::int64_t>(1, broadcast_elements / items);
  for (std::int64_t begin = 0; begin < items; begin += step) {
    const Range rows{begin, std::min(items, begin + step)};
    const auto values = view(matrix, {rows.begin * items, rows.end * items});
    reader.read_file([&](const io::CheckpointFile& file) {
      file.read_rows(models::matrix_name, rows.begin, rows.end, values);
    });
    ranks.broadcast(values, 0);
    ranks.activity().note_progress();
  }
  return std::make_shared<StoredDenseModel>(std::move(matrix), items);
}

std::shared_ptr<const models::ItemModel> read_sparse(CheckpointReader& reader, std::int64_t items,
                                                     comm::Communicator& ranks) {
  models::SparseWeights weights;
  reader.read_file([&](const io::CheckpointFile& file) {
    weights.indptr = file.read_array<std::int64_t>("weights/items/indptr");
    weights.indices = file.read_array<std::int32_t>("weights/items/indices");
    weights.data = file.read_array<float>("weights/items/data");
    const auto entries = static_cast<std::int64_t>(weights.indices.size());
    require(static_cast<std::int64_t>(weights.indptr.size()) == items + 1 && weights.indptr.front() == 0 &&
                weights.indptr.back() == entries && std::ranges::is_sorted(weights.indptr),
            "indptr");
    require(std::ranges::all_of(weights.indices, [&](std::int32_t i) { return i >= 0 && i < items; }),
            "indices");
    require(weights.data.size() == weights.indices.size(), "data");
  });
  broadcast_vector(weights.indptr, ranks);
  broadcast_vector(weights.indices, ranks);
  broadcast_vector(weights.data, ranks);
  return std::make_shared<models::SparseWeights>(std::move(weights));
}

}  // namespace

std::shared_ptr<const models::ItemModel> read_item_model(CheckpointReader& reader, models::ModelType type,
                                                         std::int64_t items, const Context& context) {
  std::int64_t dense = 0;
  reader.read_file([&](const io::CheckpointFile& file) {
    const auto& stored = file.attribute<std::string>("model_type");
    if (stored != vaecf::to_string(type))
      throw InputError(format(
          "model.type is {}, but the checkpoint contains a model of type {}; use the configuration of its run",
          vaecf::to_string(type), excerpt(stored)));
    dense = file.find_tensor(models::matrix_name) != nullptr;
  });
  context.communicator.broadcast(std::span(&dense, 1), 0);
  return dense > 0 ? read_dense(reader, items, context) : read_sparse(reader, items, context.communicator);
}

std::string solution_title(CheckpointReader& reader, const Context& context) {
  std::string title;
  reader.read_file([&](const io::CheckpointFile& file) {
    // Older checkpoints have no weight of features.
    const bool has_features = file.attributes().contains("feature_weight");
    title = file.attribute<std::string>("model_type");
    if (const auto* facts = models::find_model(title); facts != nullptr && facts->inverts)
      title = models::ease_title(
          {.l2 = file.attribute<double>("l2"),
           .dropout = file.attribute<double>("dropout"),
           .neighbors = file.attribute<std::int64_t>("neighbors"),
           .user_power = file.attribute<double>("user_power"),
           .relax = file.attribute<double>("relax"),
           .kept_weight = file.attribute<double>("kept_weight"),
           .feature_weight = has_features ? file.attribute<double>("feature_weight") : 0.0});
  });
  return context.communicator.broadcast_string(title, 0);
}

std::unique_ptr<models::Scorer> load_scorer(CheckpointReader& reader, const config::TrainingConfig& options,
                                            const models::InputDims& inputs, const Context& context,
                                            std::int64_t max_users) {
  if (models::is_solved(options.model.type)) {
    return models::make_item_scorer(read_item_model(reader, options.model.type, inputs.items, context),
                                    inputs.items, context);
  }
  auto model = models::make_model(options.model, inputs, context.device, max_users);
  reader.load_weights(*model);
  return model;
}

}  // namespace vaecf::checkpoint
