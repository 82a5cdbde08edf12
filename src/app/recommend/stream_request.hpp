#pragma once

#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/weights.hpp>
#include <vaecf/io/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/recommend/item_names.hpp"

namespace vaecf::app {

/// What a line of `recommend --stream` is read with.
struct StreamFields {
  const ItemNames& items;
  data::FeatureHashing features = {};            ///< of users; without columns if the model has none
  std::optional<data::WeightRule> weights = {};  ///< of a model that was trained with interaction weights
  std::int64_t max_reasons = 0;                  ///< 0: the program was started without --reasons
};

/// A line of `recommend --stream`: a user, and what to recommend.
struct StreamRequest {
  std::string user;                 ///< "user" as JSON; empty: none
  std::vector<std::int32_t> items;  ///< ascending and unique
  std::vector<float> weights;       ///< like `items`; empty: all are 1
  std::vector<std::int32_t> features;
  std::vector<std::int32_t> exclude;                 ///< ascending
  std::optional<std::vector<std::int32_t>> include;  ///< ascending; nullopt: as the program was started
  std::optional<std::int64_t> k;
  std::optional<bool> keep_seen;
  std::optional<std::int64_t> reasons;
  std::int64_t unknown = 0;  ///< ids of items that the model does not know
};

/// The longest line that is read, and the deepest nesting of lists and objects in it.
inline constexpr std::size_t max_stream_line = std::size_t{1} << 20;
inline constexpr int max_stream_depth = 4;

/// Reads a line. Throws InputError if it is not an object of these fields, which `user` then may name.
StreamRequest read_stream_request(std::string_view line, const StreamFields& fields, std::string& user);

}  // namespace vaecf::app
