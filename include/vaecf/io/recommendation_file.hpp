#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vaecf::io {

/// What a file of recommendations is about. N users, I items, k places.
struct RecommendationHead {
  IdList users;        ///< (N)
  IdList items;        ///< (I): what the numbers of /item mean
  IdList titles;       ///< (I), or empty
  std::int64_t k = 0;  ///< places of a user
  Attributes attributes;
};

/// Writes recommendations as HDF5, block by block: /user_id (N), /item_id (I), /item_title (I) where there
/// are titles, /item int32 (N,k), best first, -1 where none is left, /score float32 (N,k), /popular uint8
/// (N): 1 where a user got the popular items (scores nan). The file has its name once commit() is done, and a
/// writer destroyed before leaves nothing. RunError where the disk is full or not writable.
class RecommendationWriter {
 public:
  RecommendationWriter(const std::string& path, const RecommendationHead& head);
  ~RecommendationWriter();

  /// The next users: items and scores (rows, k), popular (rows).
  void append(std::span<const std::int32_t> items, std::span<const float> scores,
              std::span<const std::uint8_t> popular);
  /// Gives the file its name. All users must have come.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace vaecf::io
