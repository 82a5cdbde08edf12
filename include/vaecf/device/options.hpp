#pragma once

#include <vaecf/base/enum_names.hpp>

#include <utility>

namespace vaecf::device {

enum class DeviceChoice { automatic, cpu, cuda };
enum class Precision { automatic, fp32, bf16, fp16, tf32 };
/// Portable: plain loops, no library products.
enum class Kernels { automatic, portable };

/// The largest number of threads of a rank.
inline constexpr int most_threads = 4096;

/// What a run may choose about the device that it computes on.
struct BackendOptions {
  DeviceChoice device = DeviceChoice::automatic;
  Precision precision = Precision::automatic;  ///< auto: bf16 on CUDA and on CPUs with AMX, else fp32
  Kernels kernels = Kernels::automatic;
  int threads = 0;  ///< up to most_threads; 0: this rank's share of the cores it is bound to
  // On GPUs:
  Toggle resident = Toggle::automatic;  ///< keep the shard in the GPU's memory (auto: if it fits)
  Toggle graph = Toggle::automatic;     ///< record the step once and replay it
  bool deterministic = false;           ///< the same bits from run to run, where speed would choose otherwise
  int local_rank = 0;                   ///< of the ranks on this host, which takes which GPU
  int local_size = 1;
  bool allow_shared_gpu = false;  ///< several ranks may use one GPU: for tests, never for speed
};

}  // namespace vaecf::device

namespace vaecf {

template <>
inline constexpr EnumNames<device::DeviceChoice, 3> enum_names<device::DeviceChoice>{
    {{device::DeviceChoice::automatic, "auto"},
     {device::DeviceChoice::cpu, "cpu"},
     {device::DeviceChoice::cuda, "cuda"}}};
template <>
inline constexpr EnumNames<device::Precision, 5> enum_names<device::Precision>{
    {{device::Precision::automatic, "auto"},
     {device::Precision::fp32, "fp32"},
     {device::Precision::bf16, "bf16"},
     {device::Precision::fp16, "fp16"},
     {device::Precision::tf32, "tf32"}}};
template <>
inline constexpr EnumNames<device::Kernels, 2> enum_names<device::Kernels>{
    {{device::Kernels::automatic, "auto"}, {device::Kernels::portable, "portable"}}};

}  // namespace vaecf
