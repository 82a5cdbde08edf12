#pragma once

#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::run {

/// The items most similar to an item, best first, ties by item.
struct SimilarItems {
  std::vector<std::int32_t> items;
  std::vector<float> scores;
};

/// Returns for each of `items` at most `k` others that are the most similar by the weights of a checkpoint.
/// Throws InputError if the model of the checkpoint is not known.
std::vector<SimilarItems> similar_items(const io::CheckpointFile& checkpoint,
                                        std::span<const std::int32_t> items, int k);

}  // namespace vaecf::run
