#pragma once

#include <vaecf/models/kind.hpp>
#include <vaecf/run/run.hpp>

#include <string>

namespace vaecf::run {

/// Returns the bytes of memory that a rank has for parameters, gradient and moments: its part of what is free
/// on its host, or on its GPU, where an eighth is kept for operations.
double memory_of_parameters(const Context& context);

/// Throws BusyError on the affected ranks if a model that is solved does not fit into memory.
void require_memory_to_solve(const models::SolvedKind& kind, const Run& run);

/// The memory of a rank that is trained by steps.
struct MemoryPlan {
  double needed = 0.0;      ///< bytes of host memory on a CPU: all
  double parameters = 0.0;  ///< bytes of parameters, gradient and moments, on a GPU or a CPU
  std::string text = {};
};

/// Returns the memory of a rank that trains with `item_slices` item slices. Throws InputError if the model
/// configuration is invalid.
MemoryPlan memory_plan(const Run& run, int item_slices);
/// Returns the memory of a rank that is trained by steps, as one line.
std::string memory_text(const Run& run);

}  // namespace vaecf::run
