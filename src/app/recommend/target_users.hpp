#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <functional>
#include <string>

#include "app/recommend/item_names.hpp"
#include "app/recommend/recommend_arguments.hpp"

namespace vaecf::app {

/// Returns an attribute with a default for checkpoints of models without user features or new items.
template <class T>
T optional_attribute(const io::CheckpointFile& checkpoint, const char* name) {
  return checkpoint.attributes().contains(name) ? checkpoint.attribute<T>(name) : T();
}

/// Returns how values become the interaction weights that the model was trained with. A dataset made
/// by hand may have other weights; values are then taken as ratings.
data::WeightRule weight_rule_of(const io::CheckpointFile& checkpoint);

/// The users to recommend to, with their items and features.
struct TargetUsers {
  io::IdList users;         ///< ids in the source
  std::string description;  ///< "test users of data.h5"
  /// Returns the items of these users: one row per user, columns ascending and unique.
  std::function<Csr(Range users)> seen;
  /// Returns the features of these users: one row per user, columns ascending and unique; no rows without
  /// features.
  std::function<Csr(Range users)> features;
  /// Returns the last of the items that explain the scores of a network; no rows if items have no
  /// order, or no user has more than Recommender::max_left_out.
  std::function<Csr(Range users)> last = [](Range) { return Csr{}; };
};

/// Returns the users to recommend to:
/// - with --split train, validation or test: the users of this split, with their training or fold-in items;
/// - with --split all: every user of the dataset once, with all items, including held-out ones, whose weights
///   are 1;
/// - with --input: new users from a file in the format of `source`, with features from the table source.users
///   if that has a path;
/// - with that table only: all users of the table, without items.
/// `dataset` is that of --split, null for new users; it must outlive the result. `duplicates` is the rule for
/// the weights of repeated items. Throws InputError if there are no users, if a file is malformed, if a table
/// is given but the model has no user features, or a weight column but it has no weights.
TargetUsers make_target_users(const RecommendArguments& arguments, const data::SourceOptions& source,
                              const io::DatasetFile* dataset, const io::CheckpointFile& checkpoint,
                              const ItemNames& names, Log& log,
                              data::DuplicateRule duplicates = data::DuplicateRule::first);

/// Returns the users of --user and --users, in this order and each once. Logs unknown ids. Throws
/// InputError if an id of --user or all of --users are unknown, or the file cannot be read. `source`
/// describes its columns.
TargetUsers select_users(TargetUsers all, const RecommendArguments& arguments,
                         const data::SourceOptions& source, Log& log);

}  // namespace vaecf::app
