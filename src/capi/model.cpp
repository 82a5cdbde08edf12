#include "capi/model.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/version.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <cstdlib>

namespace vaecf::capi {
namespace {

/// Returns the options as overrides of configuration keys, after those that serve on any machine.
std::vector<std::string> overrides_of(std::string_view options) {
  std::vector<std::string> overrides = {"device=cpu", "train.precision=fp32"};
  if (options.empty()) return overrides;
  std::string problem;
  const io::Json json = io::parse_line(options, problem);
  if (!problem.empty()) throw InputError(format("options: are not JSON ({})", problem));
  if (!json.is_object()) throw InputError("options: must be a JSON object of configuration keys");
  for (const auto& [key, value] : json.items()) overrides.push_back(format("{}={}", key, io::dump(value)));
  return overrides;
}

std::unique_ptr<device::Device> device_for(device::BackendOptions options) {
  if (options.threads == 0 && std::getenv("OMP_NUM_THREADS") == nullptr)
    options.threads = std::max(1, cores_within(cpu_limit(), static_cast<int>(process_cores())));
  return device::make_device(options);
}

std::vector<std::string> texts_of(const io::IdList& list) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < list.size(); ++i) texts.push_back(list.text(i));
  return texts;
}

}  // namespace

Model::Model(const std::string& path, std::string_view options) : Model(io::CheckpointFile(path), options) {}

Model::Model(const io::CheckpointFile& checkpoint, std::string_view options)
    : config_(config::parse_served(checkpoint.attribute<std::string>("configuration"), checkpoint.path(),
                                   overrides_of(options))),
      self_(comm::make_self_communicator()),
      device_(device_for(config_.backend)),
      explains_(device_->facts().precision == device::Precision::fp32),
      recommender_(std::make_unique<run::Recommender>(
          config_.options, Context{*self_, *device_, log_, progress_}, checkpoint, explains_)) {
  const io::Attributes& stored = checkpoint.attributes();
  weighted_ = stored.contains("interaction_weights");
  if (stored.contains("new_items")) new_items_ = checkpoint.attribute<std::int64_t>("new_items");
  if (stored.contains("feature_hashing"))
    hashing_ = data::FeatureHashing::parse(checkpoint.attribute<std::string>("feature_hashing"));
  const io::DatasetSummary summary = checkpoint.dataset();
  ids_ = texts_of(summary.item_ids);
  titles_ = texts_of(summary.item_titles);
  for (std::size_t i = 0; i < ids_.size(); ++i) columns_.emplace(ids_[i], static_cast<std::int32_t>(i));
  io::Json facts;
  facts["version"] = version_number();
  facts["checkpoint"] = checkpoint.path();
  facts["checksum"] = format("{:016x}", checkpoint.checksum());
  facts["dataset_checksum"] = checkpoint.attribute<std::string>("dataset_checksum");
  facts["model"] = checkpoint.attribute<std::string>("model_type");
  facts["solved"] = models::is_solved(config_.options.model.type);
  facts["items"] = items();
  facts["new_items"] = new_items_;
  facts["user_features"] = recommender_->features();
  facts["user_feature_columns"] = hashing_.columns();
  facts["interaction_weights"] = weighted() ? checkpoint.attribute<std::string>("interaction_weights") : "";
  facts["vector_width"] = recommender_->vector_width();
  facts["titles"] = !titles_.empty();
  facts["reasons"] = explains_;
  facts["device"] = device_->facts().description;
  facts_ = io::dump(facts);
}

std::int32_t Model::find(std::string_view id) const {
  const auto found = columns_.find(id);
  return found == columns_.end() ? -1 : found->second;
}

const std::string& Model::name(std::int32_t column, bool title) const {
  if (column < 0 || column >= items())
    throw InputError(format("column: must be 0 to {}, got {}", items() - 1, column));
  if (title && titles_.empty()) throw InputError("title: the checkpoint contains no titles of items");
  return (title ? titles_ : ids_)[static_cast<std::size_t>(column)];
}

}  // namespace vaecf::capi
