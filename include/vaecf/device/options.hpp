#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::device {

enum class DeviceChoice { automatic, cpu, cuda };
enum class Precision { automatic, fp32, bf16, fp16, tf32, bf16x3 };
/// Kernel selection; portable: plain loops without library products.
enum class Kernels { automatic, portable };

enum class Activation { sigmoid, tanh, identity };
/// The loss of the output layer: multinomial with softmax, or squared error with sigmoid.
enum class Loss { squared, multinomial };

/// Upper bound on the number of threads per rank.
inline constexpr int max_threads = 4096;

/// Options of the device that a rank computes on.
struct BackendOptions {
  DeviceChoice device = DeviceChoice::automatic;
  Precision precision = Precision::automatic;  ///< auto: bf16 on CUDA and on CPUs with AMX, else fp32
  Kernels kernels = Kernels::automatic;
  int threads = 0;  ///< at most max_threads; 0: this rank's part of the cores it is bound to
  // GPU only:
  Toggle resident = Toggle::automatic;    ///< keep the rank's users in GPU memory (automatic: if they fit)
  Toggle cuda_graph = Toggle::automatic;  ///< capture the step as a CUDA graph and replay it
  bool deterministic = false;             ///< bitwise reproducible, also if that is slower
  int local_rank = 0;                     ///< rank on this host, which selects the GPU
  int local_size = 1;
  bool allow_shared_gpu = false;  ///< let several ranks use one GPU; for tests
};

enum class DeviceKind { cpu, cuda };

/// Properties of a rank's device, which do not change except for peak_bytes.
struct DeviceFacts {
  DeviceKind kind = DeviceKind::cpu;
  std::string description = {};           ///< one line for the log: device, threads, precision and kernels
  std::string id = {};                    ///< unique id ("GPU-..."); empty if ranks may share the device
  Precision precision = Precision::fp32;  ///< never `automatic`
  int threads = 0;                        ///< number of computing threads on the host; 1 on a GPU
  std::int64_t peak_bytes = 0;            ///< peak use of device memory in bytes; 0 on a CPU
  std::int64_t evaluation_batch = 0;  ///< number of users per batch with which models evaluate at full speed
  std::vector<std::string> products = {};  ///< a line for each shape of the dense products so far; GPU only
};

/// The peak rates of a device that it can measure.
enum class Rate {
  gemm,    ///< GFLOP/s of a large matrix product in the device's precision (fp32 or bf16)
  memory,  ///< GB/s read and written by copies that exceed the caches
};

}  // namespace vaecf::device

namespace vaecf {

template <>
inline constexpr auto enum_names<device::DeviceKind> = named<device::DeviceKind>("cpu", "cuda");
template <>
inline constexpr auto enum_names<device::DeviceChoice> = named<device::DeviceChoice>("auto", "cpu", "cuda");
template <>
inline constexpr auto enum_names<device::Precision> = named<device::Precision>("auto", "fp32", "bf16", "fp16",
                                                                               "tf32", "bf16x3");
template <>
inline constexpr auto enum_names<device::Activation> = named<device::Activation>("sigmoid", "tanh",
                                                                                 "identity");
template <>
inline constexpr auto enum_names<device::Loss> = named<device::Loss>("squared", "multinomial");
template <>
inline constexpr auto enum_names<device::Kernels> = named<device::Kernels>("auto", "portable");

}  // namespace vaecf
