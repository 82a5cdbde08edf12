#pragma once

#include <cstdint>
#include <string_view>

namespace vaecf::cuda {

/// Switches between the old and the new way of a computation, so that one program measures both. They exist
/// until the changes are measured on a GPU; docs/PERFORMANCE.md lists them. Each member names its change; 0
/// is the old way unless stated otherwise.
struct Tune {
  std::int64_t groups = 4;  ///< R4: groups of threads that sum the rows of one user; 1: the old way
};

/// Parses "ones=0,chunk=5120". Throws InputError if a name is unknown or a value is not an integer >= 0.
Tune parse_tune(std::string_view text);

/// Returns the switches of this process: those of the environment variable VAECF_TUNE, read at the first
/// call. Tests may change them between backends.
Tune& tune();

}  // namespace vaecf::cuda
