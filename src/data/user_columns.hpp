#pragma once

#include <vaecf/data/feature_hashing.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "data/philox_stream.hpp"
#include "data/taste_model.hpp"

namespace vaecf::data {

/// What made-up users tell of themselves: country, age, occupation, gender, then column_5 and so on, with
/// from 2 to 60 values each. A value goes with one of the user's tastes, drawn by its share, but every
/// seventh is any and every twentieth is missing: so a column says something of what a user likes, and never
/// all.
class UserColumns {
 public:
  UserColumns(int columns, int tastes, std::uint64_t seed);

  const FeatureHashing& hashing() const { return hashing_; }
  /// One value a column, empty where it is missing.
  const std::vector<std::string>& draw_user(PhiloxStream& random, const TasteModel::Mixture& tastes);

 private:
  struct Column {
    std::int32_t values = 0;
    std::vector<std::int32_t> of_taste;  // the value that goes with each taste
  };
  std::vector<Column> columns_;
  FeatureHashing hashing_;
  std::vector<std::string> drawn_;
};

}  // namespace vaecf::data
