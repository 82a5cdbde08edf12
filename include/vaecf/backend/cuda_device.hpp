#pragma once

#include <string>

namespace vaecf::cuda {

/// Whether CUDA can be used here and now, and if not, what stands in the way.
struct Availability {
  bool compiled = false;  ///< this program holds CUDA code
  int devices = 0;        ///< GPUs that this process may use
  std::string reason;     ///< a sentence with what to do; empty where devices > 0
};

/// Asks the CUDA runtime, which works without an NVIDIA driver. Never throws, creates no context.
Availability availability();

}  // namespace vaecf::cuda
