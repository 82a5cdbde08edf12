#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/model_export.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/recommend/input_files.hpp"

namespace vaecf::app {

/// Arguments of `recommend`.
struct RecommendArguments {
  std::string checkpoint;  ///< empty: best.h5 of the configuration's run folder
  std::string input;       ///< file of user,item lines; empty: users of `split`
  std::string users;       ///< table of features of new users; empty: none
  std::string split = "test";
  std::vector<std::string> user;  ///< ids in the source of the only users
  std::string user_list;          ///< file of ids of the only users; both empty: all users
  int top = 10;
  bool keep_seen = false;  ///< also recommend items that the user already has
  std::string exclude;     ///< file of items never to recommend; empty: none
  std::string include;     ///< file of the only items to recommend; empty: all
  bool titles = false;     ///< add a column of titles
  std::string output;      ///< empty: standard output
  std::string format;      ///< tsv, csv, jsonl, json, hdf5; empty: by the output's ending
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
};

/// Returns the users to recommend to:
/// - with --split train, validation or test: the users of this split, with their training or fold-in items;
/// - with --split all: every user of the dataset once, with all items, including held-out ones;
/// - with --input: new users from a file in the format of `source`, with features from the table source.users
///   if that has a path;
/// - with that table only: all users of the table, without items.
/// `dataset` is that of --split, null for new users; it must outlive the result. Throws InputError if there
/// are no users, if a file is malformed, or if a table is given but the model has no user features.
TargetUsers make_target_users(const RecommendArguments& arguments, const data::SourceOptions& source,
                              const io::DatasetFile* dataset, const io::CheckpointFile& checkpoint,
                              const ItemNames& names, Log& log);

/// Returns the users of --user and --user-list, in this order and each once. Logs unknown ids. Throws
/// InputError if no id is known, or the file cannot be read.
TargetUsers select_users(TargetUsers all, const RecommendArguments& arguments, Log& log);

/// The formats of recommendations: tables, one JSON object per user and line or in one array, and HDF5.
enum class OutputFormat { tsv, csv, jsonl, json, hdf5 };

/// Returns the format that --format names, else that of the ending of --output, else TSV. Throws InputError
/// if the ending is not known, and for HDF5 without --output.
OutputFormat output_format(const RecommendArguments& arguments);

/// Returns a string as a field of TSV, which has no quotes: separators are replaced by spaces.
std::string tsv_field(std::string text);

/// Writes recommendations, user by user in the order of RecommendationHeader::users. TSV and CSV have one
/// line per user and item. Titles are written if the header has them.
class RecommendationOutput {
 public:
  /// Opens the output; `path` empty: standard output. Throws RunError if the file cannot be created, and
  /// InputError if JSON cannot contain an id since it is not UTF-8.
  RecommendationOutput(OutputFormat format, const std::string& path, io::RecommendationHeader header);

  /// Appends the next users: items and scores (rows, k), best first; item -1 if no item is left. The scores
  /// of users with popularity-based items are nan.
  void append(std::span<const std::int32_t> items, std::span<const float> scores);
  /// Completes the output; a file is then visible under its name.
  void commit();

 private:
  bool is_json() const { return format_ == OutputFormat::json || format_ == OutputFormat::jsonl; }
  /// Returns id or title `i` of a list as a field of a line, or as a JSON value.
  std::string value(const io::IdList& list, std::int64_t i) const;
  void add_lines(const std::string& user, std::span<const std::int32_t> items, std::span<const float> scores);
  void add_object(const std::string& user, std::span<const std::int32_t> items,
                  std::span<const float> scores);
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
