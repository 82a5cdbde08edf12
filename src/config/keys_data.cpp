#include "config/key_making.hpp"

namespace vaecf::config {

void add_data_keys(Keys& keys) {
  keys.push_back(make_key(
      "name", [](Config & c) -> auto& { return c.session.name; }, "runs go to run.directory/name",
      folder_name()));
  keys.push_back(make_key(
      "data.file", [](Config & c) -> auto& { return c.session.data.file; },
      "the HDF5 dataset that prepare writes and train reads"));
  keys.push_back(make_key(
      "data.virtual_shards", [](Config & c) -> auto& { return c.session.data.virtual_shards; },
      "train users are cut into this many parts; ranks share them out", at_least(1)));
  keys.push_back(make_key(
      "data.source.format", [](Config & c) -> auto& { return c.source.format; },
      "prepare: how the raw ratings are written", one_of(data::source_formats())));
  keys.push_back(make_key(
      "data.source.path", [](Config & c) -> auto& { return c.source.path; },
      "prepare: the file of raw ratings, packed or not, its folder, or a pattern such as "
      "\"combined_data_*.txt\""));
  keys.push_back(make_key(
      "data.source.file", [](Config & c) -> auto& { return c.source.file; },
      "which file of a folder or archive; empty: the one that the format is known for"));
  keys.push_back(make_key(
      "data.source.validation_path", [](Config & c) -> auto& { return c.source.validation_path; },
      "split given: the validation file; empty: validation.*, valid.* or val.* beside train.*"));
  keys.push_back(make_key(
      "data.source.test_path", [](Config & c) -> auto& { return c.source.test_path; },
      "split given: the test file; empty: test.* beside train.*"));
  keys.push_back(make_key(
      "data.source.separator", [](Config & c) -> auto& { return c.source.separator; },
      "delimited: what stands between columns, e.g. \",\" or \"\\t\"", not_empty()));
  keys.push_back(make_key(
      "data.source.header", [](Config & c) -> auto& { return c.source.header; },
      "delimited: the first line names the columns"));
  keys.push_back(make_key(
      "data.source.quotes", [](Config & c) -> auto& { return c.source.quotes; },
      "delimited: fields may stand in double quotes"));
  keys.push_back(make_key(
      "data.source.user_column", [](Config & c) -> auto& { return c.source.user_column; },
      "delimited: index from 0, or a name from the header", not_empty()));
  keys.push_back(make_key(
      "data.source.item_column", [](Config & c) -> auto& { return c.source.item_column; },
      "delimited: index from 0, or a name from the header", not_empty()));
  keys.push_back(make_key(
      "data.source.rating_column", [](Config & c) -> auto& { return c.source.rating_column; },
      "delimited: the same; empty: every line is an interaction"));
  keys.push_back(make_key(
      "data.source.time_column", [](Config & c) -> auto& { return c.source.time_column; },
      "delimited: the same, for pick: last; empty: lines stand in order of time"));
  keys.push_back(make_key(
      "data.source.list_starts_with", [](Config & c) -> auto& { return c.source.list_starts_with; },
      "adjacency: user, or count of its items (users are then numbered by lines from 0)",
      one_of({"user", "count"})));
  keys.push_back(make_key(
      "data.source.users.path", [](Config & c) -> auto& { return c.source.users.path; },
      "the table of users for data.prepare.features; empty: users.dat, u.user, .. beside the ratings or "
      "in their archive"));
  keys.push_back(make_key(
      "data.source.users.file", [](Config & c) -> auto& { return c.source.users.file; },
      "which file of a folder or archive; empty: one of known name, or the only one"));
  keys.push_back(make_key(
      "data.source.users.separator", [](Config & c) -> auto& { return c.source.users.separator; },
      "what stands between its columns; empty: of a known file its own, else seen in the first line"));
  keys.push_back(make_key(
      "data.source.users.header", [](Config & c) -> auto& { return c.source.users.header; },
      "its first line names the columns (not asked for known files)"));
  keys.push_back(make_key(
      "data.source.users.quotes", [](Config & c) -> auto& { return c.source.users.quotes; },
      "its fields may stand in double quotes (the same)"));
  keys.push_back(make_key(
      "data.source.users.user_column", [](Config & c) -> auto& { return c.source.users.user_column; },
      "index from 0, or a name from the header (the same)", not_empty()));
  keys.push_back(make_key(
      "data.prepare.min_rating", [](Config & c) -> auto& { return c.prepare.min_rating; },
      "keep rating >= this (\"> 3.5\" is 4.0 on half stars)"));
  keys.push_back(make_key(
      "data.prepare.min_user_items", [](Config & c) -> auto& { return c.prepare.min_user_items; },
      "then keep users with at least this many items", at_least<i64>(0)));
  keys.push_back(make_key(
      "data.prepare.min_item_users", [](Config & c) -> auto& { return c.prepare.min_item_users; },
      "before that, keep items with at least this many users", at_least<i64>(0)));
  keys.push_back(make_key(
      "data.prepare.validation_users", [](Config & c) -> auto& { return c.prepare.validation_users; },
      "users held out for validation; weak splits: 0 is no validation, all others all users",
      at_least<i64>(0)));
  keys.push_back(make_key(
      "data.prepare.test_users", [](Config & c) -> auto& { return c.prepare.test_users; },
      "users held out for the test; weak splits: the same", at_least<i64>(0)));
  keys.push_back(make_key("data.prepare.held_out_fraction",
                          [](Config & c) -> auto& { return c.prepare.held_out_fraction; },
                          "share of a held-out user's items that the model must find",
                          {"greater than 0 and below 1", [](const double& v) { return v > 0 && v < 1; }}));
  keys.push_back(make_key(
      "data.prepare.split", [](Config & c) -> auto& { return c.prepare.split; },
      "strong: liang2018 (bit-exact to the published one), random; weak: leave_one_out, ratio, given (by "
      "files)",
      one_of(data::split_names())));
  keys.push_back(make_key(
      "data.prepare.pick", [](Config & c) -> auto& { return c.prepare.pick; },
      "leave_one_out, ratio: which items of a user are held out", one_of({"random", "last"})));
  keys.push_back(make_key(
      "data.prepare.seed", [](Config & c) -> auto& { return c.prepare.seed; }, "of the split"));
  keys.push_back(make_key(
      "data.prepare.features", [](Config & c) -> auto& { return c.prepare.features; },
      "columns of the table of users that the model sees beside items, by name or index, e.g. [gender, "
      "age]"));
  keys.push_back(make_key("data.prepare.feature_hashes",
                          [](Config & c) -> auto& { return c.prepare.feature_hashes; },
                          "inputs that a value of such a column sets",
                          {"1 to 16", [](const i64& v) { return v >= 1 && v <= 16; }}));
  keys.push_back(make_key(
      "data.prepare.feature_buckets", [](Config & c) -> auto& { return c.prepare.feature_buckets; },
      "inputs per hash of a column; 0: the square root of its number of values, at least 16",
      at_least<i64>(0)));
  keys.push_back(make_key("data.prepare.compression",
                          [](Config & c) -> auto& { return c.prepare.compression; },
                          "of the dataset: 0 none; 1 (fast) to 9 (small) shuffle and deflate",
                          {"from 0 to 9", [](const i64& v) { return v >= 0 && v <= 9; }}));
  keys.push_back(make_key(
      "data.prepare.memory_gib", [](Config & c) -> auto& { return c.prepare.memory_gib; },
      "GiB for events, beyond which they go to a temporary file beside data.file; 0: half of what is free",
      {"at least 0", [](const double& v) { return v >= 0; }}));
}

void add_model_keys(Keys& keys) {
  keys.push_back(make_key(
      "model.type", [](Config & c) -> auto& { return c.session.model.type; },
      "mult_vae: variational; mult_dae: denoising, no sampling, no KL", one_of({"mult_vae", "mult_dae"})));
  keys.push_back(make_key(
      "model.hidden", [](Config & c) -> auto& { return c.session.model.hidden; },
      "widths of the encoder's hidden layers, mirrored in the decoder", widths()));
  keys.push_back(make_key(
      "model.latent", [](Config & c) -> auto& { return c.session.model.latent; }, "width of the latent layer",
      at_least<i64>(1)));
  keys.push_back(make_key(
      "model.dropout", [](Config & c) -> auto& { return c.session.model.dropout; },
      "share of input items dropped in training", fraction_below_one()));
  keys.push_back(make_key(
      "model.history_dropout", [](Config & c) -> auto& { return c.session.model.history_dropout; },
      "share of users of a step whose items are all dropped from the input, so that the model learns to do "
      "with their features; 0.1 where it is to serve people without a history",
      fraction_below_one()));
  keys.push_back(make_key(
      "model.features", [](Config & c) -> auto& { return c.session.model.features; },
      "users' features as input beside their items; auto: where the dataset has them",
      one_of({"auto", "off"})));
}

}  // namespace vaecf::config
