#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace vaecf::io {

/// Contents of a recommendation file except the recommendations, for N users, I items and k recommendations
/// per user.
struct RecommendationHeader {
  IdList users;        ///< (N) ids, in the order of append()
  IdList items;        ///< (I) ids; /item contains indices into them
  IdList titles;       ///< (I) titles of the items, or empty
  std::int64_t k = 0;  ///< recommendations per user
  Attributes attributes;
};

/// Writes recommendations to an HDF5 file, block by block and atomically. Datasets: /user_id (N), /item_id
/// (I), /item_title (I) if there are titles, /item int32 (N,k) best first and padded with -1, /score float32
/// (N,k), and /popular uint8 (N), which is 1 for users who are recommended the most popular items (their
/// scores are NaN). The file is temporary until commit() renames it to `path`; destruction without commit()
/// removes it. All functions throw RunError if the disk is full or not writable.
class RecommendationWriter {
 public:
  /// Creates the temporary file in the folder of `path`, and writes the ids and titles.
  RecommendationWriter(const std::string& path, const RecommendationHeader& header);
  ~RecommendationWriter();

  /// Appends the next users. `items` and `scores`: (rows, k), row-major; `popular`: (rows). The sum of all
  /// rows must not exceed N.
  void append(std::span<const std::int32_t> items, std::span<const float> scores,
              std::span<const std::uint8_t> popular);
  /// Writes the attributes, and renames the file to `path`. All N users must have been appended; this is not
  /// checked.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Values of some users, one per user in each column.
struct UserColumns {
  struct Column {
    std::string path;  ///< path of the dataset in the file: "history", "ease/ndcg@100"
    std::variant<std::vector<std::int64_t>, std::vector<double>> values;
  };
  IdList users;
  std::vector<Column> columns;
  Attributes attributes;
};

/// Writes an HDF5 file with /user_id and one dataset per column, atomically. Replaces an existing file.
/// Throws RunError if the disk is full or not writable.
void write_user_columns(const std::string& path, const UserColumns& content);

}  // namespace vaecf::io
