#pragma once

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::train {

/// The popularity baseline: ranks items by their number of training users, and ties by ascending item. The
/// only input is the list of items that the user has seen; they are excluded.
class Popularity {
 public:
  /// Counts items in /train; each rank reads an equal part. Collective.
  Popularity(const io::DatasetFile& dataset, const RunContext& context);
  /// Uses the given number of users of each item.
  explicit Popularity(std::span<const std::int64_t> counts);

  /// Writes for each target the number of more popular items that are not in `seen` (ascending), or the
  /// number of all items if the target is in `seen`.
  void rank(std::span<const std::int32_t> seen, std::span<const std::int32_t> targets,
            std::span<std::int32_t> ranks) const;
  /// Writes the most popular items that are not in `seen` (ascending), at most items.size(), and returns
  /// their count.
  std::size_t top(std::span<const std::int32_t> seen, std::span<std::int32_t> items) const;

 private:
  std::vector<std::int32_t> order_;     // items by descending popularity
  std::vector<std::int32_t> position_;  // position of each item in order_
};

}  // namespace vaecf::train
