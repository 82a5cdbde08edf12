#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/user_files.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/command_line.hpp"

namespace vaecf::app {

/// The formats of recommendations: tables, one JSON object per user and line or in one array, and HDF5.
enum class OutputFormat { tsv, csv, jsonl, json, hdf5 };

/// Returns the format that --format names, else that of the ending of --output, else TSV. Throws InputError
/// if the ending is not known, and for HDF5 without --output.
OutputFormat output_format(const RecommendArguments& arguments);

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
