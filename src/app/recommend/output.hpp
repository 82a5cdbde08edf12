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

namespace CLI {
class App;
}  // namespace CLI

namespace vaecf::app {

/// The formats of recommendations: tables, one JSON object per user and line or in one array, and HDF5.
enum class OutputFormat { tsv, csv, jsonl, json, hdf5 };

/// Returns the format that --format names, else that of the ending of --output, else TSV. Throws InputError
/// if the ending is not known, and for HDF5 without --output.
OutputFormat output_format(const std::string& output, const std::string& format);

/// Adds --output and --format.
void add_output_format(CLI::App& command, std::string& output, std::string& format);

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
/// `places` ("items", "similar"), "scores", "titles" if there are, and with `reasons` those of the reasons.
/// `items` and `titles`: ids and titles as JSON.
std::string list_fields(const char* places, const Recommendations& list, std::int64_t reasons,
                        const std::vector<std::string>& items, const std::vector<std::string>& titles);

/// Returns the attributes of an HDF5 file of lists: its format, and from which model it is.
io::Attributes list_attributes(const io::CheckpointFile& checkpoint);

/// Returns an id or title as JSON.
std::string json_id(const io::IdList& list, std::int64_t i);

/// Writes lists, user by user in the order of RecommendationHeader::users, or those of similar items in the
/// order of RecommendationHeader::similar_to. TSV and CSV have one line per user and item. Titles and reasons
/// are written if the header has them.
class RecommendationOutput {
 public:
  /// Opens the output; `path` empty: standard output. Throws RunError if the file cannot be created, and
  /// InputError if JSON cannot contain an id since it is not UTF-8.
  RecommendationOutput(OutputFormat format, const std::string& path, io::RecommendationHeader header);

  /// Appends the lists of the next users.
  void append(const Recommendations& users);
  /// Completes the output; a file is then visible under its name.
  void commit();

 private:
  bool is_similar() const { return !head_.similar_to.empty(); }
  /// Return the names of the columns of those who have lists, and of what is in them.
  const char* owner_name() const { return is_similar() ? "item" : "user"; }
  const char* places_name() const { return is_similar() ? "similar" : "item"; }
  bool is_json() const { return format_ == OutputFormat::json || format_ == OutputFormat::jsonl; }
  /// Returns id or title `i` of a list as a field of a line, or as a JSON value.
  std::string value(const io::IdList& list, std::int64_t i) const;
  /// Appends the list of one user or item as lines, or as a JSON object.
  void add_lines(const std::string& owner, const Recommendations& list);
  void add_object(const std::string& owner, const Recommendations& list);
  /// Writes the buffered text.
  void hand_out();

  OutputFormat format_;
  char separator_;
  io::RecommendationHeader head_;
  std::optional<io::RecommendationWriter> hdf5_;
  std::optional<io::AtomicOutputFile> file_;  // without this and hdf5_: standard output
  std::vector<std::string> items_;            // ids and titles as they are written
  std::vector<std::string> titles_;
  std::int64_t next_list_ = 0;
  std::string text_;
};

}  // namespace vaecf::app

template <>
inline constexpr auto vaecf::enum_names<vaecf::app::OutputFormat> =
    vaecf::named<vaecf::app::OutputFormat>("tsv", "csv", "jsonl", "json", "hdf5");
