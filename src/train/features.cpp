#include "features.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <variant>

namespace vaecf::train {

model::Inputs model_inputs(const SessionOptions& options, const io::DatasetFile& dataset) {
  return {dataset.items(), options.model.features == model::FeaturesInput::off ? 0 : dataset.features()};
}

std::string feature_hashing_of(const io::DatasetFile& dataset) {
  const auto found = dataset.attributes().find("feature_hashing");
  if (dataset.features() == 0 || found == dataset.attributes().end()) return "";
  const auto* text = std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}

void require_same_features(const std::string& path, const LoadedCheckpoint& checkpoint,
                           const SessionOptions& options, const io::DatasetFile& dataset) {
  const std::int64_t wanted = model_inputs(options, dataset).features;
  if (checkpoint.features == 0 && wanted == 0) return;
  if (checkpoint.features == 0) {
    throw InputError(
        format("{}: it was trained without features of users, and {} has {} of them; set model.features to "
               "off, or train anew",
               path, dataset.path(), wanted));
  }
  if (wanted == 0) {
    const bool off = dataset.features() > 0;
    throw InputError(format("{}: it was trained with {} features of users, and {}; {}", path,
                            checkpoint.features,
                            off ? "model.features is off" : format("{} has none", dataset.path()),
                            off ? "set it to auto" : "name the dataset it was trained on"));
  }
  const std::string hashing = feature_hashing_of(dataset);
  if (checkpoint.features == wanted && checkpoint.feature_hashing == hashing) return;
  throw InputError(
      format("{}: it was trained with {} features of users, made by\n{}\nand {} has {}, made by\n{}\nso that "
             "they do not mean the same; name the dataset it was trained on",
             path, checkpoint.features, checkpoint.feature_hashing, dataset.path(), wanted, hashing));
}

}  // namespace vaecf::train
