#include <vaecf/model/model.hpp>

#include "config/key_making.hpp"

namespace vaecf::config {

void add_data_keys(Keys& keys) {
  add(keys, "name", FIELD(session.name), "runs go to run.directory/name", folder_name());
  add(keys, "data.file", FIELD(session.data.file), "the HDF5 dataset that prepare writes and train reads");
  add(keys, "data.virtual_shards", FIELD(session.data.virtual_shards),
      "train users are cut into this many parts; ranks share them out", at_least(1));
  add(keys, "data.source.format", FIELD(source.format), "prepare: how the raw ratings are written",
      one_of(data::source_formats()));
  add(keys, "data.source.path", FIELD(source.path),
      "prepare: the file of raw ratings, packed or not, its folder, or a pattern such as "
      "\"combined_data_*.txt\"");
  add(keys, "data.source.file", FIELD(source.file),
      "which file of a folder or archive; empty: the one that the format is known for");
  add(keys, "data.source.validation_path", FIELD(source.validation_path),
      "split given: the validation file; empty: validation.*, valid.* or val.* beside train.*");
  add(keys, "data.source.test_path", FIELD(source.test_path),
      "split given: the test file; empty: test.* beside train.*");
  add(keys, "data.source.separator", FIELD(source.separator),
      "delimited: what stands between columns, e.g. \",\" or \"\\t\"", not_empty());
  add(keys, "data.source.header", FIELD(source.header), "delimited: the first line names the columns");
  add(keys, "data.source.quotes", FIELD(source.quotes), "delimited: fields may stand in double quotes");
  add(keys, "data.source.user_column", FIELD(source.user_column),
      "delimited: index from 0, or a name from the header", not_empty());
  add(keys, "data.source.item_column", FIELD(source.item_column),
      "delimited: index from 0, or a name from the header", not_empty());
  add(keys, "data.source.rating_column", FIELD(source.rating_column),
      "delimited: the same; empty: every line is an interaction");
  add(keys, "data.source.time_column", FIELD(source.time_column),
      "delimited: the same, for pick: last; empty: lines stand in order of time");
  add(keys, "data.source.list_starts_with", FIELD(source.list_starts_with),
      "adjacency: user, or count of its items (users are then numbered by lines from 0)");
  add(keys, "data.source.users.path", FIELD(source.users.path),
      "the table of users for data.prepare.features; empty: users.dat, u.user, .. beside the ratings or "
      "in their archive");
  add(keys, "data.source.users.file", FIELD(source.users.file),
      "which file of a folder or archive; empty: one of known name, or the only one");
  add(keys, "data.source.users.separator", FIELD(source.users.separator),
      "what stands between its columns; empty: of a known file its own, else seen in the first line");
  add(keys, "data.source.users.header", FIELD(source.users.header),
      "its first line names the columns (not asked for known files)");
  add(keys, "data.source.users.quotes", FIELD(source.users.quotes),
      "its fields may stand in double quotes (the same)");
  add(keys, "data.source.users.user_column", FIELD(source.users.user_column),
      "index from 0, or a name from the header (the same)", not_empty());
  add(keys, "data.prepare.min_rating", FIELD(prepare.min_rating),
      "keep rating >= this (\"> 3.5\" is 4.0 on half stars)");
  add(keys, "data.prepare.min_user_items", FIELD(prepare.min_user_items),
      "then keep users with at least this many items", at_least<i64>(0));
  add(keys, "data.prepare.min_item_users", FIELD(prepare.min_item_users),
      "before that, keep items with at least this many users", at_least<i64>(0));
  add(keys, "data.prepare.validation_users", FIELD(prepare.validation_users),
      "users held out for validation; weak splits: 0 is no validation, all others all users",
      at_least<i64>(0));
  add(keys, "data.prepare.test_users", FIELD(prepare.test_users),
      "users held out for the test; weak splits: the same", at_least<i64>(0));
  add(keys, "data.prepare.held_out_fraction", FIELD(prepare.held_out_fraction),
      "share of a held-out user's items that the model must find",
      {"greater than 0 and below 1", [](const double& v) { return v > 0 && v < 1; }});
  add(keys, "data.prepare.split", FIELD(prepare.split),
      "strong: liang2018 (bit-exact to the published one), random; weak: leave_one_out, ratio, given (by "
      "files)");
  add(keys, "data.prepare.pick", FIELD(prepare.pick),
      "leave_one_out, ratio: which items of a user are held out");
  add(keys, "data.prepare.seed", FIELD(prepare.seed), "of the split");
  add(keys, "data.prepare.features", FIELD(prepare.features),
      "columns of the table of users that the model sees beside items, by name or index, e.g. [gender, "
      "age]");
  add(keys, "data.prepare.feature_hashes", FIELD(prepare.feature_hashes),
      "inputs that a value of such a column sets", between<i64>(1, 16));
  add(keys, "data.prepare.feature_buckets", FIELD(prepare.feature_buckets),
      "inputs per hash of a column; 0: the square root of its number of values, at least 16",
      at_least<i64>(0));
  add(keys, "data.prepare.compression", FIELD(prepare.compression),
      "of the dataset: 0 none; 1 (fast) to 9 (small) shuffle and deflate", between<i64>(0, 9));
  add(keys, "data.prepare.memory_gib", FIELD(prepare.memory_gib),
      "GiB for events, beyond which they go to a temporary file beside data.file; 0: half of what is free",
      at_least(0.0));
}

void add_model_keys(Keys& keys) {
  add(keys, "model.type", FIELD(session.model.type),
      "mult_vae: variational; mult_dae: denoising, no sampling, no KL",
      one_of({model::model_types.begin(), model::model_types.end()}));
  add(keys, "model.hidden", FIELD(session.model.hidden),
      "widths of the encoder's hidden layers, mirrored in the decoder", widths());
  add(keys, "model.latent", FIELD(session.model.latent), "width of the latent layer", at_least<i64>(1));
  add(keys, "model.dropout", FIELD(session.model.dropout), "share of input items dropped in training",
      fraction_below_one());
  add(keys, "model.history_dropout", FIELD(session.model.history_dropout),
      "share of users of a step whose items are all dropped from the input, so that the model learns to do "
      "with their features; 0.1 where it is to serve people without a history",
      fraction_below_one());
  add(keys, "model.features", FIELD(session.model.features),
      "users' features as input beside their items; auto: where the dataset has them");
}

}  // namespace vaecf::config
