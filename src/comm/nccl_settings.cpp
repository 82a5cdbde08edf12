#include "nccl_settings.hpp"

#include <vaecf/base/format.hpp>

#include <sys/statvfs.h>

#include <cstdlib>

namespace vaecf::comm {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> nccl_environment(const NcclSettings& settings) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (settings.deterministic || settings.algorithm == AllReduceAlgorithm::ring)
    variables.emplace_back("NCCL_ALGO", "Ring");
  if (settings.deterministic) variables.emplace_back("NCCL_PROTO", "Simple");
  // Sums in the NVLink switch differ from call to call (NVIDIA/nccl#1497), and do not work on shared GPUs.
  if (settings.deterministic || settings.shared_gpu) variables.emplace_back("NCCL_NVLS_ENABLE", "0");
  if (!settings.shared_gpu) return variables;
  constexpr int knows_shared_gpus = 23000;
  if (settings.version >= knows_shared_gpus) {
    variables.emplace_back("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    // Kernels of all ranks must fit on the GPU together: each waits for the others'.
    variables.emplace_back("NCCL_MAX_CTAS", "4");
  } else {
    // Ranks that take each other for other hosts may share a GPU, and talk through sockets.
    variables.emplace_back("NCCL_HOSTID", vaecf::format("vaecf-rank-{}", settings.rank));
    variables.emplace_back("NCCL_IB_DISABLE", "1");
  }
  return variables;
}

void set_nccl_environment(const NcclSettings& settings) {
  constexpr int keep = 0;
  for (const auto& [name, value] : nccl_environment(settings)) setenv(name.c_str(), value.c_str(), keep);
}

std::string nccl_agreement(int version) {
  std::string text = vaecf::format("NCCL {}", nccl_version_text(version));
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE"}) {
    const std::string value = variable(name);
    if (!value.empty()) text += vaecf::format(" {}={}", name, value);
  }
  return text;
}

std::string nccl_version_text(int version) {
  return vaecf::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string nccl_choice(const NcclSettings& settings) {
  const std::string algorithm = variable("NCCL_ALGO");
  const std::string protocol = variable("NCCL_PROTO");
  std::string text = "NCCL's choice of algorithm";
  if (algorithm == "Ring") {
    text = "ring";
  } else if (!algorithm.empty()) {
    text = vaecf::format("NCCL_ALGO={}", algorithm);
  }
  if (settings.deterministic && algorithm == "Ring" && protocol == "Simple") {
    text += ", the same bits from run to run by the Simple protocol (small sums are slower)";
  } else if (!protocol.empty()) {
    text += vaecf::format(", NCCL_PROTO={}", protocol);
  }
  if (settings.shared_gpu) text += ", on GPUs that ranks share: timings mean nothing";
  return text;
}

std::string to_message(const NcclFailure& failure) {
  std::string text = vaecf::format("NCCL: {} failed: {}", failure.call, failure.meaning);
  if (!failure.details.empty()) text += vaecf::format(" ({})", failure.details);
  if (failure.remote) {
    return text + "; another rank ended or can no longer be reached: see what it says itself";
  }
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  constexpr std::int64_t enough = 256 * mib;
  if (failure.shared_memory >= 0 && failure.shared_memory < enough) {
    text += vaecf::format(
        "; /dev/shm has {} MiB free, which may be too little for ranks on one host: containers get more by "
        "--shm-size=1g --ulimit memlock=-1",
        failure.shared_memory / mib);
  }
  return text + "; NCCL_DEBUG=INFO in the environment makes NCCL say more";
}

std::int64_t free_shared_memory() {
  struct statvfs space {};
  if (statvfs("/dev/shm", &space) != 0) return -1;
  return static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize);
}

}  // namespace vaecf::comm
