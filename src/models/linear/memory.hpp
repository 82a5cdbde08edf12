#pragma once

#include <vaecf/models/kind.hpp>

#include <cstdint>

namespace vaecf::models {

/// Adds the bytes of the train users of a rank to the cost of a solution, which is complete with them: all of
/// them twice, by users and by items, and as much again if `features` of items are more rows of a copy.
/// Interaction weights take as much as the numbers of their users or items.
Cost with_interactions(Cost cost, bool features, const Workload& work);

/// Returns the bytes of a rank for `entries` weights in compressed form: all weights, and its part of the
/// lists of neighbors from which they are gathered.
double sparse_weight_bytes(std::int64_t items, std::int64_t entries, const comm::Communicator& ranks);

/// Returns the bytes of a checkpoint with `entries` weights in compressed form.
double sparse_checkpoint_bytes(std::int64_t items, std::int64_t entries);

}  // namespace vaecf::models
