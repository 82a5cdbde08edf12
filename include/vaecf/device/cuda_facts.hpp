#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::cuda {

/// Compute capability times ten that this program needs, for bf16: 80 of an A100.
inline constexpr int oldest_generation = 80;

/// Whether CUDA can be used here and now, and if not, what stands in the way.
struct Availability {
  bool compiled = false;  ///< this program holds CUDA code
  int devices = 0;        ///< GPUs that this process may use
  std::string reason;     ///< a sentence with what to do; empty where devices > 0
};

/// Asks the CUDA runtime, which works without an NVIDIA driver. Never throws, creates no context.
Availability availability();

struct GpuFacts {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::string id;    ///< "GPU-01234567-..."
  std::string pci;   ///< bus address
  std::int64_t memory_bytes = 0;
  int generation = 0;  ///< compute capability times ten: 90 of an H100
};

/// How two GPUs of this host reach each other.
struct GpuLink {
  int first = 0;
  int second = 0;
  bool peer_access = false;  ///< without the host's memory in between
  /// Atomic operations on the other's memory, which NVLink carries and PCIe does not: what tells them apart
  /// without the driver's own library.
  bool atomics = false;
};

/// What the CUDA runtime says of this process's machine.
struct CudaFacts {
  int driver = 0;   ///< the newest CUDA that the driver supports: 12040 for 12.4; 0: none
  int runtime = 0;  ///< of the library in use; 0: not compiled in
  std::vector<GpuFacts> gpus;
  std::vector<GpuLink> links;  ///< of every pair
};

/// Works without an NVIDIA driver; creates no context. RunError where a GPU that is there does not answer.
CudaFacts cuda_facts();

}  // namespace vaecf::cuda
