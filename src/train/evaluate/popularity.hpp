#pragma once

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::train {

/// Ranks items by how many train users hold them, ties to the lower item: the baseline that knows nothing of
/// the user but what he has seen. Exact, without a score per user and item.
class Popularity {
 public:
  /// Each rank counts its even share of /train; the counts are added over ranks.
  Popularity(const io::DatasetFile& dataset, const Services& services);
  /// From counts per item.
  explicit Popularity(std::span<const std::int64_t> counts);

  /// For each target: how many items that are not in `seen` (ascending) stand before it; the number of items
  /// where it is in `seen` itself.
  void rank(std::span<const std::int32_t> seen, std::span<const std::int32_t> targets,
            std::span<std::int32_t> ranks) const;
  /// The first items that are not in `seen` (ascending), as many as fit; how many there were.
  std::size_t top(std::span<const std::int32_t> seen, std::span<std::int32_t> items) const;

 private:
  std::vector<std::int32_t> order_;     // items, the most popular first
  std::vector<std::int32_t> position_;  // of each item in the order of popularity
};

}  // namespace vaecf::train
