#pragma once

#include <vaecf/models/trainable_model.hpp>

#include <cstdint>
#include <span>

namespace vaecf::models {

/// Writes the cosines of the vectors of some items with those of all I items, (items, I); 0 for a vector of
/// zeros. The vectors are the rows or columns of a tensor, which is read in blocks.
void write_cosines(const Model& model, int tensor, std::span<const std::int32_t> items, std::span<float> out);

}  // namespace vaecf::models
