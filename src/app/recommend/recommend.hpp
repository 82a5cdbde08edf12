#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/table.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/model_export.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vaecf::app {

/// Maps the source's ids and, if any, titles of items to columns.
class ItemNames {
 public:
  /// A title shared by several items maps to none of them.
  explicit ItemNames(const io::IdList& ids, const io::IdList& titles = {});

  /// Returns the column of the item with this id, or else with this title; -1 if there is none.
  std::int32_t find(const std::string& name) const;
  /// Returns the column of the item in field `column` of a row. If the field and all following fields
  /// together are an item, returns that one: unquoted titles may contain commas. -1 if there is none.
  std::int32_t find(const data::Table& row, std::size_t column) const;
  std::int64_t size() const { return size_; }
  /// Returns whether the source's ids are integers.
  bool numeric() const { return numeric_; }
  /// Returns the first three ids, for messages: "1, 2, 3".
  const std::string& first_ids() const { return first_ids_; }

 private:
  std::int64_t size_;
  bool numeric_;
  std::string first_ids_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string, std::int32_t> titles_;
};

/// Returns the first three ids, for messages: "1, 2, 3".
std::string first_ids(const io::IdList& ids);

/// Counts unknown names and stores the first few.
class UnknownNames {
 public:
  void add(const std::string& name);
  /// Returns how often add() was called.
  std::int64_t count() const { return count_; }
  /// Returns "a, b, c", with " ..." appended if there were more.
  std::string text() const;

 private:
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
  bool more_ = false;
};

/// Returns whether `text` is a usual header of the column `what` ("user", "item", "title",
/// "category", "rank" or "score"): for "item" title, item, item_id, itemId, Item ID ..., also with movie,
/// track, song, product or book instead of item.
bool is_header_for(std::string_view text, std::string_view what);

/// Reads a TSV or CSV file: plain, compressed, the only file of an archive, or a pipe. The separator is a TAB
/// if the first line contains one, else that of `expected` if the line contains it, else a comma; CSV fields
/// may be quoted. `first` is called with the first line; it requires the columns to read, and returns whether
/// the line is a header. `each` is called with every other line. Throws InputError if the file cannot be
/// read, or is a TREC run or a JSON array; `for_array` is what to do with an array instead.
void read_rows(const std::string& path, const data::TableLayout& expected, std::string_view for_array,
               const std::function<bool(data::Table& rows)>& first,
               const std::function<void(const data::Table& row)>& each);

/// The rules for weights of interactions in the input of a model that was trained with weights.
struct InputWeights {
  data::WeightRule transformation = data::WeightRule::rating;
  data::DuplicateRule duplicates = data::DuplicateRule::first;  ///< for repeated items, by lines
  std::string column{};  ///< name, or index from 0, of the column of values; empty: as data.source
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

/// Returns the position of the column named `name`, else of the only column with a usual header for `kind`,
/// a title only without others; empty if there is none. `numbers`: a number may be a name.
std::optional<std::size_t> find_named(const std::vector<std::string_view>& fields, const std::string& name,
                                      std::string_view kind, bool numbers = false);

/// The columns of a file with a user and an item in each line.
struct UserItemColumns {
  std::size_t user = 0;
  std::size_t item = 1;
  bool header = false;  ///< true if the first line is a header
};
/// Returns the columns by the first line, which may be a header or data, as described in docs/DATA.md. Throws
/// InputError if it is neither.
UserItemColumns find_columns(const data::Table& first, const data::SourceLayout& layout,
                             const ItemNames& items);

/// Reads lines with a user and an item, in the columns of `source` or as `user,item` or `user<TAB>item`.
/// Users are in order of first appearance. Further columns and repeated lines are allowed, and a header as
/// described in docs/DATA.md. With `weights`, a user's weights are divided by their mean; null: all are 1.
/// Throws InputError with file and line if a line is malformed or a weight is not above 0, and if there are
/// no lines.
Histories read_histories(const std::string& path, const data::SourceOptions& source, const ItemNames& items,
                         const InputWeights* weights = nullptr);

/// Arguments of `recommend`.
struct RecommendArguments {
  std::string checkpoint;       ///< empty: best.h5 of the configuration's run folder
  std::string input;            ///< file of user,item lines; empty: users of `split`
  std::string weight_column{};  ///< column of weights in `input`; empty: as in `data.source`
  std::string users;            ///< table of features of new users; empty: none
  std::string split = "test";
  std::vector<std::string> user;  ///< ids in the source of the only users
  std::string user_list;          ///< file of ids of the only users; both empty: all users
  int top = 10;
  bool keep_seen = false;               ///< also recommend items that the user already has
  std::string exclude;                  ///< file of items never to recommend; empty: none
  std::string include;                  ///< file of the only items to recommend; empty: all but new items
  std::pair<std::string, int> at_most;  ///< file of the categories of items, and the maximum number of items
                                        ///< of a category in a list; empty: no limit
  std::string category_column{};        ///< column of categories in that file; empty: as in docs/SERVING.md
  int explain = 0;                      ///< number of the user's items named as reasons for each item
  bool titles = false;                  ///< add a column of titles
  std::string output;                   ///< empty: standard output
  std::string format;                   ///< tsv, csv, jsonl, json, hdf5; empty: by the output's ending
};

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

/// Returns the users of --user and --user-list, in this order and each once. Logs unknown ids. Throws
/// InputError if one of the two has no known id, or the file cannot be read. `source` describes its columns.
TargetUsers select_users(TargetUsers all, const RecommendArguments& arguments,
                         const data::SourceOptions& source, Log& log);

/// The formats of recommendations: tables, one JSON object per user and line or in one array, and HDF5.
enum class OutputFormat { tsv, csv, jsonl, json, hdf5 };

/// Returns the format that --format names, else that of the ending of --output, else TSV. Throws InputError
/// if the ending is not known, and for HDF5 without --output.
OutputFormat output_format(const RecommendArguments& arguments);

/// Returns a string as a field of TSV, which has no quotes: separators are replaced by spaces.
std::string tsv_field(std::string text);

/// The recommendations of some users, best first, and for each the reasons with the largest contributions.
struct Recommendations {
  std::span<const std::int32_t> items;         ///< (users, k); -1 if no item is left
  std::span<const float> scores;               ///< (users, k); of the most popular items NaN
  std::span<const std::int32_t> because = {};  ///< (users, k, reasons); -1 if there is no further reason
  std::span<const float> contributions = {};   ///< (users, k, reasons)

  /// Returns the recommendations [begin, end), counted from the first one of the first user.
  Recommendations subset(Range some, std::int64_t reasons) const {
    return {items.subspan(some.begin, some.size()), scores.subspan(some.begin, some.size()),
            because.subspan(some.begin * reasons, some.size() * reasons),
            contributions.subspan(some.begin * reasons, some.size() * reasons)};
  }
};

/// Writes recommendations, user by user in the order of RecommendationHeader::users. TSV and CSV have one
/// line per user and item. Titles and reasons are written if the header has them.
class RecommendationOutput {
 public:
  /// Opens the output; `path` empty: standard output. Throws RunError if the file cannot be created, and
  /// InputError if JSON cannot contain an id since it is not UTF-8.
  RecommendationOutput(OutputFormat format, const std::string& path, io::RecommendationHeader header);

  /// Appends the next users.
  void append(const Recommendations& users);
  /// Completes the output; a file is then visible under its name.
  void commit();

 private:
  bool is_json() const { return format_ == OutputFormat::json || format_ == OutputFormat::jsonl; }
  /// Returns id or title `i` of a list as a field of a line, or as a JSON value.
  std::string value(const io::IdList& list, std::int64_t i) const;
  /// Appends the recommendations of one user as lines, or as a JSON object.
  void add_lines(const std::string& user, const Recommendations& list);
  void add_object(const std::string& user, const Recommendations& list);
  /// Writes the buffered text.
  void hand_out();

  OutputFormat format_;
  char separator_;
  io::RecommendationHeader head_;
  std::optional<io::RecommendationWriter> hdf5_;
  std::optional<io::AtomicOutputFile> file_;  // without this and hdf5_: standard output
  std::vector<std::string> items_;            // ids and titles as they are written
  std::vector<std::string> titles_;
  std::int64_t next_user_ = 0;
  std::string text_;
};

}  // namespace vaecf::app

template <>
inline constexpr vaecf::EnumNames<vaecf::app::OutputFormat, 5> vaecf::enum_names<vaecf::app::OutputFormat>{
    {{vaecf::app::OutputFormat::tsv, "tsv"},
     {vaecf::app::OutputFormat::csv, "csv"},
     {vaecf::app::OutputFormat::jsonl, "jsonl"},
     {vaecf::app::OutputFormat::json, "json"},
     {vaecf::app::OutputFormat::hdf5, "hdf5"}}};
