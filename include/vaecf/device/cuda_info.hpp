#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vaecf::device {
class Device;
struct BackendOptions;

/// Returns the index of this rank's GPU among the `devices` visible ones. With one visible GPU this is 0,
/// otherwise the rank's index on the host modulo `devices`. Throws InputError if there are more ranks on the
/// host than GPUs and options.allow_shared_gpu is not set.
int choose_gpu(int devices, const BackendOptions& options);

/// Returns why none of these GPUs, given as compute capabilities times ten, can be used; empty if one can.
std::string why_too_old(const std::vector<int>& compute_capabilities);
}  // namespace vaecf::device

namespace vaecf::cuda {

/// Minimum compute capability, times ten: 80 is that of an A100. Required for bf16.
inline constexpr int min_compute_capability = 80;

/// Result of availability(): the GPUs that this process can use, or the reason why there are none.
struct Availability {
  bool compiled = false;  ///< true if this program contains CUDA code
  int devices = 0;        ///< number of GPUs visible to this process
  std::string reason;     ///< a sentence with the remedy; empty if devices > 0
};

/// Queries the CUDA runtime; works without an NVIDIA driver. Never throws and creates no context.
Availability availability();

struct GpuInfo {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  std::string id;    ///< "GPU-01234567-..."
  std::string pci;   ///< bus address
  std::int64_t memory_bytes = 0;
  int compute_capability = 0;  ///< compute capability times ten: 90 for an H100
};

/// Connection between two GPUs of this host.
struct GpuLink {
  int first = 0;
  int second = 0;
  bool peer_access = false;  ///< direct access, without a copy through host memory
  /// Atomic operations on the other GPU's memory are supported: NVLink supports them, PCIe does not,
  /// so this tells the two apart without NVML.
  bool atomics = false;
};

/// CUDA versions, GPUs and their connections, as reported by the CUDA runtime.
struct CudaInfo {
  int driver = 0;   ///< newest CUDA version that the driver supports: 12040 for 12.4; 0: no driver
  int runtime = 0;  ///< version of the runtime library; 0: built without CUDA
  std::vector<GpuInfo> gpus;
  std::vector<GpuLink> links;  ///< one entry per pair
};

/// Queries the CUDA runtime; works without an NVIDIA driver and creates no context. Throws RunError if a
/// visible GPU cannot be queried.
CudaInfo query_cuda_info();

/// Makes the device on the GPU that `options` assign to this rank. Throws InputError if no GPU can be used;
/// the message names the cause.
std::unique_ptr<device::Device> make_device(const device::BackendOptions& options);

}  // namespace vaecf::cuda
