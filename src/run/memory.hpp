#pragma once

#include <vaecf/run/run.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include <string>

namespace vaecf::run {

/// The memory of a rank that is trained by steps.
struct MemoryPlan {
  training::ItemSliceProblem problem;
  double fixed = 0.0;   ///< bytes that do not depend on the number of parameters
  double needed = 0.0;  ///< bytes of all
  std::string text = {};
};

/// Returns the memory of a rank that trains with `item_slices` item slices. Throws InputError if the model
/// configuration is invalid.
MemoryPlan memory_plan(const Run& run, int item_slices);
/// Returns the memory of a rank that is trained by steps, as one line.
std::string memory_text(const Run& run);

}  // namespace vaecf::run
