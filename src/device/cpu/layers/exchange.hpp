#pragma once

#include <vaecf/math/loss.hpp>

#include <cstdint>
#include <span>

#include "device/cpu/storage.hpp"

/// Exchanges within a model-parallel group. With one item slice, all functions use the caller's
/// memory and exchange nothing. Memory for all users has S parts of equal size, so the last rows may be
/// unused.
namespace vaecf::cpu {

/// Returns the memory for values of all users of the batch, (users, width), whose sums over the item slices
/// sum_to_owners() writes to `own`: that of `own` if there is one item slice, otherwise `memory`.
float* rows_of_all_users(const Batch& batch, Matrix& own, AlignedArray<float>& memory);
/// Sums rows of all users over the item slices; each rank receives those of its own users. Collective.
void sum_to_owners(const Batch& batch, const float* all, Matrix& own);
/// Returns the rows of all users of the batch, given those of this rank's own users. Collective.
const float* gather_from_owners(const Batch& batch, const Matrix& own, AlignedArray<float>& memory);

/// Adds `values` over the item slices, in their order. Collective.
void sum_over_item_slices(ModelParallelGroup& model_parallel, std::span<float> values,
                          AlignedArray<float>& memory);
/// Replaces each user's softmax over the items of this item slice by that over all items. Collective.
void merge_over_item_slices(ModelParallelGroup& model_parallel, std::span<math::SoftmaxPart<double>> users);

}  // namespace vaecf::cpu
