#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/model_export.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/recommend/recommend_arguments.hpp"

namespace vaecf::app {

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

/// Returns the fields of a JSON object with the recommendations of one user, all of which are items:
/// "items", "scores", "titles" if there are, and with `reasons` those of the reasons. `items` and `titles`:
/// ids and titles as JSON.
std::string list_fields(const Recommendations& list, std::int64_t reasons,
                        const std::vector<std::string>& items, const std::vector<std::string>& titles);

/// Returns an id or title as JSON.
std::string json_id(const io::IdList& list, std::int64_t i);

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
inline constexpr auto vaecf::enum_names<vaecf::app::OutputFormat> =
    vaecf::named<vaecf::app::OutputFormat>("tsv", "csv", "jsonl", "json", "hdf5");
