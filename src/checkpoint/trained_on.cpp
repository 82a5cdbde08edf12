#include "checkpoint/trained_on.hpp"

#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/models/kind.hpp>

#include <variant>

#include "checkpoint/known_users.hpp"

namespace vaecf::checkpoint {
namespace {

/// Returns the description of the feature hashing of the dataset; empty if it has no features or no
/// description.
std::string feature_hashing_of(const io::DatasetFile& dataset) {
  return dataset.features() == 0 ? "" : text_of(dataset, "feature_hashing");
}

/// Returns the part of the dataset that checkpoints contain, on rank 0; empty on other ranks. Collective.
io::DatasetSummary summarize(const Context& context, const io::DatasetFile& dataset) {
  const std::vector<std::int64_t> users = models::count_train_users(context, dataset).of_item;
  io::DatasetSummary summary;
  comm::run_on_root(context.communicator, [&] {
    summary.item_ids = io::ids_or_numbers(dataset, "items/id", dataset.items());
    if (dataset.has_ids("items/title")) summary.item_titles = dataset.read_ids("items/title");
    for (const std::int64_t count : users) summary.item_users.push_back(static_cast<std::int32_t>(count));
    if (dataset.has_ids("train/user_id")) summary.user_hashes = hash_users(dataset.read_ids("train/user_id"));
  });
  return summary;
}

}  // namespace

std::string text_of(const io::DatasetFile& dataset, const char* name) {
  const auto found = dataset.attributes().find(name);
  const auto* text = found == dataset.attributes().end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}

std::string weights_of(const io::DatasetFile& dataset) {
  if (!dataset.weighted()) return "";
  const std::string text = text_of(dataset, "interaction_weights");
  return text.empty() ? "rating" : text;
}

void require_same_features(const std::string& path, const TrainingState& checkpoint,
                           const models::ModelOptions& options, const io::DatasetFile& dataset) {
  const std::int64_t expected = models::input_dims(options, dataset).features;
  if (checkpoint.features == 0 && expected == 0) return;
  if (checkpoint.features == 0) {
    throw InputError(format(
        "{}: the checkpoint's model has no user features, but {} has {}; set model.user_features to off, or train again",
        path, dataset.path(), expected));
  }
  if (expected == 0) {
    const bool off = dataset.features() > 0;
    throw InputError(format("{}: the checkpoint's model has {} user features, but {}; {}", path,
                            checkpoint.features,
                            off ? "model.user_features is false" : format("{} has none", dataset.path()),
                            off ? "set it to auto" : "use the dataset of its run"));
  }
  const std::string hashing = feature_hashing_of(dataset);
  if (checkpoint.features == expected && checkpoint.feature_hashing == hashing) return;
  throw InputError(format(
      "{}: the checkpoint's model has {} user features, hashed by \"{}\", but {} has {}, hashed by \"{}\"; use the dataset of its run",
      path, checkpoint.features, excerpt(checkpoint.feature_hashing), dataset.path(), expected,
      excerpt(hashing)));
}

void TrainingState::describe(const Context& context, const models::ModelOptions& options,
                             const io::DatasetFile& data, const std::string& configuration_text,
                             const std::string& metric) {
  select = metric;
  configuration = config::stored_text(configuration_text);
  items = data.items();
  new_items = data.new_items();
  weights = weights_of(data);
  dataset_checksum = data.fingerprint();
  features = models::input_dims(options, data).features;
  feature_hashing = feature_hashing_of(data);
  if (!dataset) dataset = std::make_shared<const io::DatasetSummary>(summarize(context, data));
}

void require_same_dataset(const std::string& path, const TrainingState& checkpoint,
                          const io::DatasetFile& dataset) {
  if (checkpoint.items != dataset.items()) {
    throw InputError(
        format("{}: the checkpoint's model has {} items, but {} has {}; use the dataset of its run", path,
               checkpoint.items, dataset.path(), dataset.items()));
  }
  if (checkpoint.dataset_checksum != dataset.fingerprint()) {
    throw InputError(
        format("{}: the checkpoint's dataset has checksum {}, but {} has {}; use the dataset of its run",
               path, excerpt(checkpoint.dataset_checksum), dataset.path(), dataset.fingerprint()));
  }
}

}  // namespace vaecf::checkpoint
