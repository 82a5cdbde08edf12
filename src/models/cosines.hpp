#pragma once

#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::models {

/// Returns the cosines of the vectors of `items` with those of all items, which are the rows of a tensor; 0
/// for a vector of zeros.
std::vector<std::vector<float>> cosines_of_rows(const io::CheckpointFile& file,
                                                const io::CheckpointFile::TensorInfo& tensor,
                                                std::span<const std::int32_t> items);

/// Returns such cosines of the columns of a tensor.
std::vector<std::vector<float>> cosines_of_columns(const io::CheckpointFile& file,
                                                   const io::CheckpointFile::TensorInfo& tensor,
                                                   std::span<const std::int32_t> items);

}  // namespace vaecf::models
