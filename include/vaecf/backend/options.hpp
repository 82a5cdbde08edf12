#pragma once

#include <string>

namespace vaecf::backend {

enum class Precision { automatic, fp32, bf16, fp16, tf32 };
std::string to_string(Precision precision);

/// The largest number of threads of a rank.
inline constexpr int most_threads = 4096;

/// What a run may choose about the device that it computes on.
struct BackendOptions {
  std::string device = "auto";                 ///< auto | cpu | cuda
  Precision precision = Precision::automatic;  ///< auto: bf16 on CUDA and on CPUs with AMX, else fp32
  std::string kernels = "auto";                ///< auto | portable: plain loops, no library products
  int threads = 0;  ///< up to most_threads; 0: this rank's share of the cores it is bound to
  // On GPUs:
  std::string resident = "auto";  ///< auto | on | off: keep the shard in the GPU's memory (auto: if it fits)
  std::string graph = "auto";     ///< auto | on | off: record the step once and replay it
  bool deterministic = false;     ///< the same bits from run to run, where speed would choose otherwise
  int local_rank = 0;             ///< of the ranks on this host, which takes which GPU
  int local_size = 1;
  bool allow_shared_gpu = false;  ///< several ranks may use one GPU: for tests, never for speed
};

}  // namespace vaecf::backend
