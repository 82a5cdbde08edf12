#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/base/run_control.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// What a line of lists begins with; if it is the count of its items, users are numbered by lines from 0.
enum class ListStart { user, count };
/// liang2018 is bit-exact to the paper's notebook; given: what the files of the source say.
enum class SplitMethod { liang2018, random, leave_one_out, ratio, given };
/// Which items leave_one_out and ratio hold out.
enum class Pick { random, last };

/// A text file with a line for each user and what is known of them in its columns. The files of MovieLens
/// (users.dat, u.user) and of LastFM-360K (usersha1-profile.tsv) are known by their names; their columns are
/// called user, gender, age, occupation, zip, country and signup.
struct UsersTableOptions {
  std::string path;       ///< a file, packed or not, or an archive that holds it
  std::string file;       ///< which file of a folder or an archive; empty: one of known name, or the only one
  std::string separator;  ///< empty: of a known file its own, else the first of TAB , :: | ; in line 1
  bool header = true;     ///< the first line names the columns (of files that are not known by name)
  bool quotes = true;     ///< fields may stand in double quotes (the same)
  std::string user_column = "0";  ///< index from 0, or a name (the same)
};

/// Where raw ratings lie and how to read them. docs/DATA.md describes the formats.
struct SourceOptions {
  std::string format;  ///< one of source_formats()
  std::string path;    ///< a file, packed or not, a folder, or a pattern such as "combined_data_*.txt"
  std::string file;    ///< which file of a folder or an archive; empty: the one that the format is known for
  std::string validation_path;  ///< for the split `given`; empty: looked for beside the train file
  std::string test_path;        ///< the same
  // Up to users only formats_that_use() them.
  std::string separator = ",";    ///< one or more characters; "\t" for TAB
  bool header = true;             ///< the first line names the columns
  bool quotes = true;             ///< fields may stand in double quotes
  std::string user_column = "0";  ///< index from 0, or a name from the header
  std::string item_column = "1";
  std::string rating_column = "";  ///< empty: every line is an interaction
  std::string time_column = "";    ///< empty: lines stand in order of time
  ListStart list_starts_with = ListStart::user;
  /// What is known of users; no path: what MovieLens and LastFM-360K have beside their ratings.
  UsersTableOptions users{};
};

/// What `data.source.format` may be.
std::vector<std::string> source_formats();
/// The same with what their files are called and how their lines look, a line each.
std::string describe_source_formats();
/// The formats that use `option`, a key of data.source: "delimited".
std::string formats_that_use(std::string_view option);

/// What `prepare` keeps and how it splits.
struct PrepareOptions {
  double min_rating = 4.0;  ///< inclusive; the paper's "> 3.5" on half-star data
  std::int64_t min_user_items = 5;
  std::int64_t min_item_users = 0;
  /// For weak splits (all but liang2018 and random) only whether there is such a part: 0 is none.
  std::int64_t validation_users = 10000;
  std::int64_t test_users = 10000;
  double held_out_fraction = 0.2;
  SplitMethod split = SplitMethod::liang2018;
  Pick pick = Pick::random;
  std::uint32_t seed = 98765;
  /// Columns of the table of users, by name or index from 0, that become features; none: no features.
  std::vector<std::string> features{};
  std::int64_t feature_hashes = 2;   ///< as in FeatureColumn
  std::int64_t feature_buckets = 0;  ///< the same; 0: FeatureHashing::default_buckets()
  // What is below changes how the dataset is made and lies on disk, not what is in it.
  std::int64_t compression = 0;  ///< of matrices: 0 none, 1 to 9 shuffle and deflate of this level
  /// As much as events may take of memory, about; 0: no limit. Beyond it they go to a temporary file beside
  /// the dataset, and what grows in memory is only what is kept of users and items.
  double memory_gib = 0.0;
};

struct PrepareMode {
  bool strict = false;   ///< what would be counted and shown is an error
  bool force = false;    ///< make the dataset again even where it is there
  bool replace = false;  ///< replace a file that is not an intact dataset of ours
};

/// One line of the table that `prepare` prints.
struct StepCount {
  std::string step;
  std::int64_t events = 0;
  std::int64_t users = 0;
  std::int64_t items = 0;
};

/// Something odd in the source: how often, and where first.
struct Finding {
  std::string what;
  bool dropped = true;  ///< false: noticed, and kept
  std::int64_t count = 0;
  std::vector<std::string> examples;  ///< file:line: 'text'
};

/// What came of the table of users.
struct FeatureReport {
  struct Column {
    std::string name;
    std::int64_t values = 0;
    std::int64_t alike = 0;  ///< values that share all their features with another value
    std::int64_t hashes = 0;
    std::int64_t buckets = 0;
    std::int64_t users = 0;  ///< users of the dataset who have a value
  };
  std::string table;  ///< empty: there are no features
  std::int64_t rows = 0;
  std::int64_t unused = 0;  ///< rows of the table whose users are not in the dataset
  std::int64_t users = 0;   ///< of the dataset
  std::int64_t known = 0;   ///< of them those in the table
  std::vector<Column> columns;
};

struct PrepareReport {
  std::vector<StepCount> steps;
  std::vector<Finding> findings;
  std::int64_t lines_read = 0;
  std::int64_t events_read = 0;
  std::int64_t duplicates_dropped = 0;
  FeatureReport features{};
  /// Where nothing was to be done: the table of when the dataset was made.
  bool was_there = false;
  std::string stored_table;
};

/// Raw ratings -> HDF5 dataset at `output`, written whole or not at all. InputError names file and line.
/// A dataset that was made of the same source with the same options is left as it is.
///
/// docs/DATA.md has the steps and splits. With `random` a user's draws are by Philox, with `liang2018` by
/// numpy's generator.
PrepareReport prepare(const SourceOptions& source, const PrepareOptions& options, const std::string& name,
                      const std::string& output, const PrepareMode& mode, Log& log, Progress& progress);

/// The report as a table for the terminal.
std::string to_table(const PrepareReport& report);

/// What a table tells of its users, in the columns of a model.
struct HashedUsers {
  std::vector<std::string> ids;  ///< as the table has them, in its order, each once
  Csr rows;                      ///< one a user, columns in [0, F)
};

/// Reads `table` for people the model never saw: the columns that `hashing` names, by their names in the
/// header or the known ones. Lines that cannot be read are left out and shown in `log`. InputError where the
/// file or a column is not there, or most lines cannot be read.
HashedUsers read_hashed_users(const UsersTableOptions& table, const FeatureHashing& hashing, Log& log);

}  // namespace vaecf::data

template <>
inline constexpr vaecf::EnumNames<vaecf::data::ListStart, 2> vaecf::enum_names<vaecf::data::ListStart>{
    {{vaecf::data::ListStart::user, "user"}, {vaecf::data::ListStart::count, "count"}}};
template <>
inline constexpr vaecf::EnumNames<vaecf::data::SplitMethod, 5> vaecf::enum_names<vaecf::data::SplitMethod>{
    {{vaecf::data::SplitMethod::liang2018, "liang2018"},
     {vaecf::data::SplitMethod::random, "random"},
     {vaecf::data::SplitMethod::leave_one_out, "leave_one_out"},
     {vaecf::data::SplitMethod::ratio, "ratio"},
     {vaecf::data::SplitMethod::given, "given"}}};
template <>
inline constexpr vaecf::EnumNames<vaecf::data::Pick, 2> vaecf::enum_names<vaecf::data::Pick>{
    {{vaecf::data::Pick::random, "random"}, {vaecf::data::Pick::last, "last"}}};
