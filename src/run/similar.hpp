#pragma once

#include <vaecf/models/model.hpp>
#include <vaecf/run/recommender.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::run {

/// Returns for each of `items` at most `k` others that are the most similar by the weights of a model.
std::vector<SimilarItems> similar_items(const models::Scorer& model, std::span<const std::int32_t> items,
                                        int k);

}  // namespace vaecf::run
