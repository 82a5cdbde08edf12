#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/weights.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// A column of a table of users or items, such as "occupation", and how its values are hashed.
struct FeatureColumn {
  std::string name;
  std::int64_t hashes = 2;    ///< number of features that each value sets, one in each block of features
  std::int64_t buckets = 16;  ///< number of features in a block
  bool operator==(const FeatureColumn&) const = default;
};

/// Maps the categorical attributes of a user or item to a 0/1 row of F features. F is independent of the
/// number of distinct values. Value v of column c, whose name is n, sets for each j in [0, hashes(c)) the
/// feature
///   first(c) + j * buckets(c) + XXH64(v, seed = XXH64(n, seed = j)) mod buckets(c),
/// where first(c) is the sum of hashes * buckets over the columns before c. This is the hashing trick
/// (Weinberger et al., ICML 2009) with several hashes, as in Svenstrup et al., "Hash embeddings", NeurIPS
/// 2017. With m distinct values, sqrt(m) buckets and 2 hashes, about a third of the values have a unique set
/// of features. Most others share theirs with one or two values. With 3 hashes nearly all sets are unique.
class FeatureHashing {
 public:
  /// Makes a hashing without columns: F = 0.
  FeatureHashing() = default;
  /// Throws InputError if a name is empty, contains a line break or occurs twice, if there are more than 4096
  /// columns, if `hashes` is not in 1 to 16, if `buckets` is below 1, or if F exceeds 2^31 - 1.
  explicit FeatureHashing(std::vector<FeatureColumn> layout);

  /// Parses the output of to_string(), the attributes `feature_hashing` and `item_feature_hashing` of
  /// datasets and checkpoints. Throws InputError if `text` has any other form.
  static FeatureHashing parse(std::string_view text);
  /// Returns "xxh64 1" and, for each column, a line "HASHES BUCKETS NAME".
  std::string to_string() const;

  /// Returns the default number of buckets for `values` distinct values: sqrt(values) rounded up, but at
  /// least 16.
  static std::int64_t default_buckets(std::int64_t values);

  /// Returns the names of the table columns, in the order of `values` of row().
  std::vector<std::string> columns() const;
  const std::vector<FeatureColumn>& layout() const { return layout_; }
  /// Returns F, the width of a row.
  std::int64_t features() const { return features_; }

  /// Returns the features of a user: unique indices in [0, F), ascending. `values` has one value per column;
  /// an empty value is missing and sets no feature. Throws InputError if the number of values differs from
  /// the number of columns.
  std::vector<std::int32_t> row(std::span<const std::string> values) const;
  /// Appends to `row`, in ascending order, the features that `value` of column `index` (from 0) sets; an
  /// empty value sets none.
  void append(std::size_t index, std::string_view value, std::vector<std::int32_t>& row) const;

  bool operator==(const FeatureHashing& other) const { return layout_ == other.layout_; }

 private:
  std::vector<FeatureColumn> layout_;
  std::vector<std::int64_t> first_;                // per column
  std::vector<std::vector<std::uint64_t>> seeds_;  // per column and hash
  std::int64_t features_ = 0;
};

/// First field of a line of the format `adjacency`: the user's id, or the number of items that follow. With
/// `count`, the user's id is the line number, from 0.
enum class ListStart { user, count };
/// Split method. `liang2018` reproduces the split of the paper's notebook bit for bit; `given` keeps the
/// split of the source files. docs/DATA.md describes the others.
enum class SplitMethod { liang2018, random, stable, leave_one_out, ratio, given, time };
/// Selection of the targets of a user in the splits `leave_one_out` and `ratio`: a random sample, or the last
/// items by time.
enum class Holdout { random, last };
/// Rule for a (user, item) pair with several events: the first or the last one counts, or their ratings are
/// added or their maximum is taken. See DuplicateFilter.
enum class DuplicateRule { first, last, sum, max };

/// Kind of a feature table: its lines describe users or items.
enum class TableOf { users, items };

/// Location and format of a feature table: a text file with attributes of a user or item in each line. The
/// files of MovieLens (users.dat, u.user; movies.csv, movies.dat, u.item) and LastFM-360K
/// (usersha1-profile.tsv) are recognized by name; docs/DATA.md lists their columns.
struct FeatureTableOptions {
  TableOf of = TableOf::users;
  std::string path{};  ///< plain or compressed file, or archive that contains it
  std::string file{};  ///< file in a folder or an archive; empty: the one with a known name, or the only one
  std::string separator{};  ///< empty: that of a known file, else the first of TAB , :: | ; found in line 1
  bool header = true;       ///< the first line names the columns (ignored for known files)
  bool quotes = true;       ///< fields may be enclosed in double quotes (ignored for known files)
  std::string id_column = "0";        ///< index from 0, or name (ignored for known files)
  std::string title_column{};         ///< column of titles; empty: none, or those of the format (items only)
  std::string value_separator = "|";  ///< between the values of a field; empty: a field has one value
};

/// Location and format of the raw ratings. docs/DATA.md describes the formats.
struct SourceOptions {
  std::string format;  ///< one of source_formats()
  std::string path;    ///< plain or compressed file, folder, or pattern such as "combined_data_*.txt"
  std::string file;    ///< file within a folder or an archive; empty: the format's default name
  std::string validation_path;  ///< validation file of the split `given`; empty: next to the train file
  std::string test_path;        ///< test file of the split `given`; empty: next to the train file
  // Formats use the options from here to `list_starts_with` only if formats_that_use() lists them.
  std::string
      separator;       ///< one or more characters, "\t" for TAB; empty: a comma, or by a first line "sep=;"
  bool header = true;  ///< the first line names the columns
  bool quotes = true;  ///< fields may be enclosed in double quotes
  std::string user_column = "0";  ///< index from 0, or name in the header
  std::string item_column = "1";
  std::string rating_column = "";  ///< empty: every line is an interaction
  std::string time_column = "";    ///< empty: lines are in chronological order
  ListStart list_starts_with = ListStart::user;
  /// User table. With an empty path: the table that MovieLens and LastFM-360K store next to the ratings.
  FeatureTableOptions users{};
  /// Table of items. With an empty path: the one that MovieLens stores next to the ratings.
  FeatureTableOptions items{.of = TableOf::items};
};

/// Returns the allowed values of `data.source.format`.
std::vector<std::string> source_formats();
/// Returns one line per source format, with its file names and line format.
std::string describe_source_formats();
/// Returns the names of the formats that use the key `option` of data.source (such as "separator"), as a list
/// in one string, for example "delimited".
std::string formats_that_use(std::string_view option);

/// Parses a date with the year first into seconds since 1970, in ISO 8601 and similar forms: 2005-09-06,
/// 2005/09/06 13:59:01, 2005-09-06T13:59:01.25Z, 20050906T135901, 2005-09-06 13:59+02:00. Without a time zone
/// it is UTC. Returns false if the text is not a valid date.
[[nodiscard]] bool parse_date(std::string_view text, double& seconds);
/// Returns the date of a time in seconds since 1970, in UTC: 2005-09-06, or 2005-09-06T13:59:01.25.
std::string date_text(double seconds);

/// Filter, split and feature options of `prepare`.
struct PrepareOptions {
  DuplicateRule duplicates = DuplicateRule::first;  ///< applied before `min_rating`
  double min_rating = 4.0;                          ///< inclusive; the paper's "> 3.5" on half-star data
  /// Weights of the input's interactions, by the rating that `duplicates` gives a user and item. A pair whose
  /// rating gives no positive weight is dropped, after `min_rating`.
  WeightRule weights = WeightRule::none;
  std::int64_t min_user_items = 5;  ///< users with fewer items are dropped
  std::int64_t min_item_users = 0;  ///< items with fewer users are dropped
  bool repeat_filters = false;      ///< repeat both filters by count until nothing changes
  /// Number of validation users. `time`: at most so many, 0: all. Weak splits (leave_one_out, ratio, given)
  /// only distinguish 0 (no such part) from other values. `stable` has fractions instead.
  std::int64_t validation_users = 10000;
  std::int64_t test_users = 10000;
  double validation_fraction = 0.05;  ///< fraction of the users, of the split `stable`
  double test_fraction = 0.05;
  double held_out_fraction = 0.2;  ///< fraction of a held-out user's items that become targets; `ratio`: of
                                   ///< every user's items, for validation and for test
  SplitMethod split = SplitMethod::liang2018;
  Holdout holdout = Holdout::random;
  /// Cuts of the split `time` for validation and test: fractions of the events, increasing, in (0, 1).
  std::vector<double> time_quantiles{0.8, 0.9};
  std::vector<std::string> dates{};  ///< the two cuts as dates instead, if not empty
  std::uint32_t seed = 98765;
  /// Columns of the user table, by name or index from 0, that become features; empty: no features.
  std::vector<std::string> features{};
  /// Columns of the table of items that become features of items; empty: no such features. Otherwise the
  /// items of the table without a train event are items of the dataset, too, the *new items*.
  std::vector<std::string> item_features{};
  /// Fraction of the items with train events that are made the new items: their train events are removed. 0:
  /// all items of the table without a train event.
  double new_items = 0.0;
  std::int64_t feature_hashes = 2;   ///< FeatureColumn::hashes of every column
  std::int64_t feature_buckets = 0;  ///< FeatureColumn::buckets; 0: FeatureHashing::default_buckets()
  // The options below affect how the dataset is made and stored, not its contents.
  std::int64_t compression = 0;  ///< level of shuffle and deflate, 1 to 9; 0: none
  /// Approximate upper bound on the memory for events, in GiB; 0: unlimited. Events beyond it are stored in a
  /// temporary file next to the dataset. Memory for the data kept per user and item is not limited.
  double memory_gib = 0.0;
};

/// Returns whether `prepare` uses the key `key` of data.source or data.prepare, with this format and split.
bool is_used(std::string_view key, const SourceOptions& source, const PrepareOptions& options);

/// Returns whether the events of `source` have ratings. Throws InputError if its format is unknown.
bool has_ratings(const SourceOptions& source);

/// The flags of the command `prepare`.
struct PrepareFlags {
  bool strict = false;   ///< malformed lines are errors instead of being counted and reported
  bool force = false;    ///< make the dataset again even if it is up to date
  bool replace = false;  ///< overwrite any file, not only an intact dataset of this program
};

/// One row of the table that `prepare` prints: the data that remain after a stage.
struct StageCounts {
  std::string stage;
  std::int64_t events = 0;
  std::int64_t users = 0;
  std::int64_t items = 0;
};

/// One kind of malformed or unusual line in the source.
struct DataIssue {
  std::string what;
  bool dropped = true;  ///< false: reported, but kept
  std::int64_t count = 0;
  std::vector<std::string> examples;  ///< first occurrences, as "file:line: 'text'"
};

/// Statistics of a feature table.
struct FeatureReport {
  struct Column {
    std::string name;
    std::int64_t values = 0;
    std::int64_t colliding_values = 0;  ///< values with exactly the same features as another value
    std::int64_t hashes = 0;
    std::int64_t buckets = 0;
    std::int64_t members = 0;  ///< users or items of the dataset with a value
  };
  TableOf of = TableOf::users;
  std::string table;                ///< file name; empty: no features
  std::int64_t rows = 0;            ///< users or items of the table
  std::int64_t joined_lines = 0;    ///< lines whose users or items have an earlier one
  std::int64_t unmatched_rows = 0;  ///< rows whose users or items are not in the dataset
  std::int64_t members = 0;         ///< users or items of the dataset
  std::int64_t matched = 0;         ///< users or items of the dataset that are in the table
  std::vector<Column> columns;
};

/// Counts of what `prepare` read, dropped and wrote.
struct PrepareReport {
  std::vector<StageCounts> stages;
  std::vector<DataIssue> issues;
  std::int64_t lines_read = 0;
  std::int64_t events_read = 0;
  std::int64_t duplicates_dropped = 0;
  FeatureReport features{};
  FeatureReport item_features{};
  std::int64_t new_items = 0;  ///< items of the dataset without a train event
  /// True if the dataset was up to date; `stored_report` is then the report of the run that made it.
  bool up_to_date = false;
  std::string stored_report;
};

/// Reads raw ratings and writes an HDF5 dataset called `name` to `output` atomically. A dataset that was made
/// from the same source with the same options is left unchanged. Random choices use Philox, or NumPy's
/// generator for `liang2018`; docs/DATA.md describes all steps and splits. Throws InputError with file and
/// line if the source cannot be read, or if `output` may not be replaced; throws RunError if the disk is full
/// or not writable.
PrepareReport prepare(const SourceOptions& source, const PrepareOptions& options, const std::string& name,
                      const std::string& output, const PrepareFlags& flags, Log& log, Progress& progress);

/// Returns the report as a table for the terminal.
std::string to_table(const PrepareReport& report);

/// Hashed features of the users in a table.
struct HashedUsers {
  std::vector<std::string> ids;  ///< in the order of the table, unique
  Csr rows;                      ///< one row per user, features in [0, F)
};

/// Reads the columns that `hashing` lists from `table`, whose users need not be in the dataset. Columns are
/// identified by their names in the header, or by the column names of known files. Lines that cannot be read
/// are skipped and reported in `log`. Throws InputError if the file or a column does not exist, or if more
/// lines are skipped than read.
HashedUsers read_hashed_users(const FeatureTableOptions& table, const FeatureHashing& hashing, Log& log);

/// Options of a synthetic dataset with latent structure and a long tail. Every user mixes a few tastes, every
/// item belongs to one or two, and popularity follows a power law, so that a trained model clearly
/// outperforms recommending popular items. A fifth of a held-out user's items are targets. Users are sampled
/// independently, and equal options give an identical file.
struct SynthesizeOptions {
  std::int64_t users = 10000;  ///< including held-out users
  std::int64_t items = 2000;
  double interactions_per_user = 50.0;  ///< mean; 5 plus a log-normal value per user, at most items / 2
  std::uint64_t seed = 98765;
  std::int64_t validation_users = -1;  ///< -1: a tenth of the users, at most 10,000
  std::int64_t test_users = -1;
  int tastes = 32;  ///< number of latent tastes; limited to items / 40
  /// Number of user attributes (country, age, occupation, gender, ..), each a noisy function of one of the
  /// user's tastes. The interactions do not depend on it.
  int user_columns = 0;
  std::int64_t compression = 0;  ///< level of shuffle and deflate, 1 to 9; 0: none
  bool replace = false;          ///< also replace a file that is not an intact dataset of this program
};

/// Writes the dataset to `output` atomically and in bounded memory. Throws InputError if a size is out of
/// range, or as io::check_replaceable() does; throws RunError if the disk is full or not writable.
void synthesize(const SynthesizeOptions& options, const std::string& output, Log& log, Progress& progress);

/// Returns the attributes that describe how a dataset is made: all options that determine its contents,
/// without the bytes of the source. The name is not included, so a dataset is up to date under any name.
io::Attributes provenance_attributes(const SourceOptions& source, const PrepareOptions& options);

/// Returns whether a dataset with the attributes `found` was made with `provenance`, from any source.
bool made_by(const io::Attributes& found, const io::Attributes& provenance);

/// Returns names, sizes and XXH3-128 digests of `paths` for the attribute `source`. Reads all of them; stops
/// early once `stop` is requested, and the result is then meaningless.
std::string describe_sources(const std::vector<std::string>& paths, const std::stop_token& stop = {});

/// Returns the report stored in the intact dataset at `path` if it was made with `provenance` from the
/// current contents of `source_paths` and has this compression level. Otherwise returns an empty string.
std::string stored_report(const std::string& path, const io::Attributes& provenance,
                          const std::vector<std::string>& source_paths, std::int64_t compression);

}  // namespace vaecf::data

template <>
inline constexpr vaecf::EnumNames<vaecf::data::ListStart, 2> vaecf::enum_names<vaecf::data::ListStart>{
    {{vaecf::data::ListStart::user, "user"}, {vaecf::data::ListStart::count, "count"}}};
template <>
inline constexpr vaecf::EnumNames<vaecf::data::SplitMethod, 7> vaecf::enum_names<vaecf::data::SplitMethod>{
    {{vaecf::data::SplitMethod::liang2018, "liang2018"},
     {vaecf::data::SplitMethod::random, "random"},
     {vaecf::data::SplitMethod::stable, "stable"},
     {vaecf::data::SplitMethod::leave_one_out, "leave_one_out"},
     {vaecf::data::SplitMethod::ratio, "ratio"},
     {vaecf::data::SplitMethod::given, "given"},
     {vaecf::data::SplitMethod::time, "time"}}};
template <>
inline constexpr vaecf::EnumNames<vaecf::data::DuplicateRule, 4>
    vaecf::enum_names<vaecf::data::DuplicateRule>{{{vaecf::data::DuplicateRule::first, "first"},
                                                   {vaecf::data::DuplicateRule::last, "last"},
                                                   {vaecf::data::DuplicateRule::sum, "sum"},
                                                   {vaecf::data::DuplicateRule::max, "max"}}};
template <>
inline constexpr vaecf::EnumNames<vaecf::data::Holdout, 2> vaecf::enum_names<vaecf::data::Holdout>{
    {{vaecf::data::Holdout::random, "random"}, {vaecf::data::Holdout::last, "last"}}};
