#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vaecf::io {

/// Contents of a recommendation file other than its rows, for N users, I items and k recommendations per
/// user.
struct RecommendationHeader {
  IdList users;        ///< (N)
  IdList items;        ///< (I): ids of the indices in /item
  IdList titles;       ///< (I), or empty
  std::int64_t k = 0;  ///< recommendations per user
  Attributes attributes;
};

/// Writes recommendations to an HDF5 file, block by block and atomically. Datasets: /user_id (N), /item_id
/// (I), /item_title (I) if there are titles, /item int32 (N,k) best first and padded with -1, /score float32
/// (N,k), and /popular uint8 (N), which is 1 for users who got the popular items (their scores are NaN).
/// commit() gives the file its name; destruction without commit() removes it. All functions throw RunError if
/// the disk is full or not writable.
class RecommendationWriter {
 public:
  RecommendationWriter(const std::string& path, const RecommendationHeader& head);
  ~RecommendationWriter();

  /// Appends the next users: items and scores have shape (rows, k), popular has shape (rows).
  void append(std::span<const std::int32_t> items, std::span<const float> scores,
              std::span<const std::uint8_t> popular);
  /// Gives the file its final name. All N users must have been appended.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace vaecf::io
