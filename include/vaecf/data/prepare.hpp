#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/progress.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::data {

/// Where raw ratings lie and how to read them.
struct SourceOptions {
  std::string format;  ///< movielens_csv | movielens_dat | movielens_100k | delimited
  std::string path;
  // The rest is for `delimited`.
  std::string separator = ",";    ///< one or more characters; "\t" for TAB
  bool header = true;             ///< the first line names the columns
  std::string user_column = "0";  ///< index from 0, or a name from the header
  std::string item_column = "1";
  std::string rating_column = "";  ///< empty: every line is an interaction
};

/// What `prepare` keeps and how it splits.
struct PrepareOptions {
  double min_rating = 4.0;  ///< inclusive; the paper's "> 3.5" on half-star data
  std::int64_t min_user_items = 5;
  std::int64_t min_item_users = 0;
  std::int64_t validation_users = 10000;
  std::int64_t test_users = 10000;
  double held_out_fraction = 0.2;
  std::string split = "liang2018";  ///< liang2018 (bit-exact to the paper's notebook) | random
  std::uint32_t seed = 98765;
};

/// One line of the table that `prepare` prints.
struct StepCount {
  std::string step;
  std::int64_t events = 0;
  std::int64_t users = 0;
  std::int64_t items = 0;
};

struct PrepareReport {
  std::vector<StepCount> steps;
  std::int64_t lines_read = 0;
  std::int64_t duplicates_dropped = 0;
};

/// Raw ratings -> HDF5 dataset at `output`, written whole or not at all. InputError names file and line.
///
/// Steps, each once: the first rating of each (user, item) in file order; ratings >= min_rating; items with
/// enough users; users with enough items; users cut into train, validation and test. Items are those of
/// train users, numbered by first appearance in file order; held-out events on others are dropped. Of a
/// held-out user's n events floor(held_out_fraction * n) become targets: with `liang2018` if n >= 5, drawn
/// as the paper's notebook does; with `random` at least one if n >= 2, drawn by Philox, user by user.
PrepareReport prepare(const SourceOptions& source, const PrepareOptions& options, const std::string& name,
                      const std::string& output, Log& log, Progress& progress);

/// The report as a table for the terminal.
std::string to_table(const PrepareReport& report);

}  // namespace vaecf::data
