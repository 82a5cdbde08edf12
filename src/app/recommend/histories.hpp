#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/data/weights.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "app/recommend/item_names.hpp"

namespace vaecf::app {

/// The rules for interaction weights in the input of a model that was trained with interaction weights.
struct InputWeights {
  data::WeightRule transformation = data::WeightRule::rating;
  data::DuplicateRule duplicates =
      data::DuplicateRule::first;  ///< for repeated items, by times, else by lines
  std::string column{};            ///< name, or index from 0, of the column of values; empty: as data.source
};

/// The items of users as model input: one row per user, item columns ascending and unique.
struct Histories {
  std::vector<std::string> users;  ///< ids in the file
  Csr seen;
  Csr last;  ///< the last Recommender::max_left_out items of each user in the file; no rows if no user has
             ///< more
  UnknownNames unknown;  ///< unknown items, counted by line
  std::string weights;   ///< the column that the weights of `seen` are read from; empty: all weights are 1
};

/// Returns the rows with columns ascending and unique. `values`: those of the columns of each row, of which
/// the first one of a repeated column counts; empty: all are 1.
Csr sorted_rows(std::vector<std::vector<std::int32_t>> rows,
                const std::vector<std::vector<float>>& values = {});

/// Reads lines with a user and an item, in the columns of `source` or as `user,item` or `user<TAB>item`.
/// Users are in order of first appearance. Further columns and repeated lines are allowed, and a header as
/// described in docs/SOURCES.md. With `weights`, a user's weights are divided by their mean; null: all are 1.
/// Throws InputError with file and line if a line is malformed or a weight is not above 0, and if there are
/// no lines.
Histories read_histories(const std::string& path, const data::SourceOptions& source, const ItemNames& items,
                         const InputWeights* weights = nullptr);

}  // namespace vaecf::app
