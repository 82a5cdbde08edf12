#pragma once

#include <vaecf/run/run.hpp>

#include <string>

namespace vaecf::run {

/// Returns the memory of a rank that is trained by steps, as one line.
std::string memory_text(const Run& run);

}  // namespace vaecf::run
