#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/run/recommender.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vaecf::capi {

/// The model of a checkpoint on a device of its own, with the names of its items. It does not change.
class Model {
 public:
  /// Reads the whole file, and closes it. `options`: an object of configuration keys and values in JSON, or
  /// empty. Throws InputError if the file or the options are not valid.
  Model(const std::string& path, std::string_view options);

  const run::Recommender& recommender() const { return *recommender_; }
  std::int64_t items() const { return recommender_->items(); }
  /// Returns the number of the last items that have no train event.
  std::int64_t new_items() const { return new_items_; }
  /// Returns whether the model was trained with interaction weights.
  bool weighted() const { return weighted_; }
  /// Returns whether the device computes in fp32, as reasons require.
  bool explains() const { return explains_; }
  /// Returns what describes the model, as a JSON object.
  const std::string& facts() const { return facts_; }

  /// Returns the column of the item with this id; -1 if there is none.
  std::int32_t find(std::string_view id) const;
  /// Returns the id of an item, or its title. Throws InputError if there is no such item, or it has no title.
  const std::string& name(std::int32_t column, bool title) const;
  /// Returns how values in the table of users become features.
  const data::FeatureHashing& hashing() const { return hashing_; }

 private:
  Model(const io::CheckpointFile& checkpoint, std::string_view options);

  config::Config config_;
  Log log_;
  Progress progress_;
  std::unique_ptr<comm::Communicator> self_;
  std::unique_ptr<device::Device> device_;
  bool explains_;
  std::unique_ptr<run::Recommender> recommender_;
  std::int64_t new_items_ = 0;
  bool weighted_ = false;
  std::vector<std::string> ids_;
  std::vector<std::string> titles_;  // empty: none
  std::unordered_map<std::string_view, std::int32_t> columns_;
  data::FeatureHashing hashing_;
  std::string facts_;
};

}  // namespace vaecf::capi
