#pragma once

#include <vaecf/run/run.hpp>

#include <string>

namespace vaecf::run {

/// Returns whether the run evaluates on validation users.
bool validates(const Run& run);
/// Returns the metric that selects the best epoch or solution; "last" without validation.
std::string selection_of(const Run& run);

}  // namespace vaecf::run
