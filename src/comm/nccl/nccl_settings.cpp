#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace vaecf::comm {
namespace {

std::string env_string(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool find_shared_gpu(Communicator& control, const std::string& device_id, bool may_share) {
  std::vector<std::string> ids = all_gather_strings(control, device_id);
  std::ranges::sort(ids);
  const auto shared = std::ranges::adjacent_find(ids);
  if (shared == ids.end()) return false;
  if (may_share) return true;
  throw InputError(
      format("two ranks compute on {}; start as many ranks per host as it has GPUs, "
             "or set distributed.allow_shared_gpu: true for tests without regard to speed",
             *shared));
}

/// Returns a string of all that must be equal on all ranks: the NCCL version and the variables that select
/// its algorithm.
std::string nccl_settings_signature(int version) {
  std::string text = format("NCCL {}", nccl_version_string(version));
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE"}) {
    const std::string value = env_string(name);
    if (!value.empty()) text += format(" {}={}", name, value);
  }
  return text;
}

}  // namespace

void set_nccl_environment(const NcclSettings& settings) {
  const auto set = [](const char* name, const std::string& value) {
    constexpr int keep = 0;
    setenv(name, value.c_str(), keep);
  };
  if (settings.deterministic || settings.algorithm == AllReduceAlgorithm::ring) set("NCCL_ALGO", "Ring");
  if (settings.deterministic) set("NCCL_PROTO", "Simple");
  // Reductions in the NVLink switch differ from call to call (NVIDIA/nccl#1497), and fail on shared GPUs.
  if (settings.deterministic || settings.shared_gpu) set("NCCL_NVLS_ENABLE", "0");
  if (!settings.shared_gpu) return;
  constexpr int knows_shared_gpus = 23000;
  if (settings.version >= knows_shared_gpus) {
    set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    // The kernels of all ranks wait for each other, so they must fit on the GPU at the same time.
    set("NCCL_MAX_CTAS", "4");
  } else {
    // NCCL lets ranks share a GPU only if they appear to be on different hosts; they then use sockets.
    set("NCCL_HOSTID", format("vaecf-rank-{}", settings.rank));
    set("NCCL_IB_DISABLE", "1");
  }
}

NcclSettings negotiate_nccl_settings(Communicator& control, const NcclOptions& options,
                                     const std::string& device_id, int version) {
  const NcclSettings settings{options.algorithm, options.deterministic,
                              find_shared_gpu(control, device_id, options.allow_shared_gpu), version,
                              control.rank()};
  set_nccl_environment(settings);
  const std::vector<std::string> all = all_gather_strings(control, nccl_settings_signature(version));
  const auto other = std::ranges::find_if(all, [&](const std::string& text) { return text != all[0]; });
  if (other == all.end()) return settings;
  throw InputError(format(
      "rank {} has {}, rank 0 has {}, which would cause a deadlock; use the same library and environment on all ranks (mpirun -x NCCL_ALGO)",
      other - all.begin(), *other, all[0]));
}

std::string describe_nccl_algorithm(const NcclSettings& settings) {
  const std::string algorithm = env_string("NCCL_ALGO");
  const std::string protocol = env_string("NCCL_PROTO");
  std::string text = algorithm.empty()     ? "algorithm chosen by NCCL"
                     : algorithm == "Ring" ? "ring"
                                           : "NCCL_ALGO=" + algorithm;
  if (settings.deterministic && algorithm == "Ring" && protocol == "Simple") {
    text += ", bitwise reproducible with the Simple protocol (small all-reduces are slower)";
  } else if (!protocol.empty()) {
    text += format(", NCCL_PROTO={}", protocol);
  }
  if (settings.shared_gpu) text += ", on GPUs shared by ranks (timings are meaningless)";
  return text;
}

std::string nccl_version_string(int version) {
  return format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace vaecf::comm
