#include "app/doctor/host_checks.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>

namespace vaecf::app {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t gib = std::int64_t{1} << 30;

double gibibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(gib);
}

/// Processes that Open MPI starts look their host up again and again.
Finding check_name(const HostFacts& facts) {
  Finding finding{"host name", Health::ok,
                  format("{}, {} within {:.1f} ms", facts.name, facts.name_known ? "found" : "not found",
                         1e3 * facts.name_seconds),
                  ""};
  if (facts.name_seconds > 1.0) {
    finding.health = Health::warn;
    finding.advice = format(
        "each start of Open MPI waits for that, up to half a minute: add the line `127.0.1.1 {}` to "
        "/etc/hosts, or have the name server answer",
        facts.name);
  }
  return finding;
}

Finding check_processor(const HostFacts& facts) {
  const std::string list = joined(facts.instructions);
  Finding finding{"processor", Health::ok,
                  format("{}, {} cores, {}", facts.processor.empty() ? "no name" : facts.processor,
                         facts.cores, list.empty() ? "no wide instructions" : list),
                  ""};
  if (std::count(facts.instructions.begin(), facts.instructions.end(), "avx2") == 0) {
    finding.health = Health::warn;
    finding.advice =
        "products are several times slower without AVX2: where this is a virtual machine, have it pass the "
        "host's processor through";
  }
  return finding;
}

Finding check_cpu_limit(const HostFacts& facts) {
  if (facts.cpu_limit <= 0.0) return {"cpu limit", Health::ok, "none", ""};
  Finding finding{"cpu limit", Health::ok,
                  format("this container may use {:.1f} of {} cores", facts.cpu_limit, facts.cores), ""};
  if (facts.cpu_limit < 0.99 * facts.cores) {
    finding.health = Health::warn;
    finding.advice = format(
        "more threads than that are stopped in turn, and all others wait for them: set OMP_NUM_THREADS so "
        "that ranks times threads are at most {:.0f}, or raise the limit (docker run --cpus)",
        std::max(1.0, facts.cpu_limit));
  }
  return finding;
}

Finding check_memory(const HostFacts& facts, int ranks) {
  std::string text = format("{:.1f} GiB, {:.1f} GiB of it available", gibibytes(facts.memory),
                            gibibytes(facts.memory_available));
  std::int64_t usable = facts.memory_available;
  if (facts.memory_limit > 0) {
    text += format("; this container may use {:.1f} GiB", gibibytes(facts.memory_limit));
    usable = std::min(usable, facts.memory_limit);
  }
  // An ML-20M model with moments, gradient and batch.
  constexpr double enough_for_a_rank = 1.0;
  if (gibibytes(usable) / ranks >= enough_for_a_rank) return {"memory", Health::ok, text, ""};
  return {
      "memory", Health::warn, text,
      format("that is less than {:g} GiB for each of {} ranks, as models of MovieLens 20M's size need: end "
             "other programs, start fewer ranks here, or use a smaller model or batch",
             enough_for_a_rank, ranks)};
}

Finding check_shared_memory(const HostFacts& facts, int ranks, bool gpus) {
  if (facts.shared_memory < 0) {
    return {"/dev/shm", ranks > 1 ? Health::warn : Health::ok, "there is none",
            ranks > 1 ? "ranks of one host talk through it: mount a tmpfs there" : ""};
  }
  Finding finding{"/dev/shm", Health::ok,
                  format("{:.0f} MiB, {:.0f} MiB of it free",
                         static_cast<double>(facts.shared_memory) / static_cast<double>(mib),
                         static_cast<double>(facts.shared_memory_free) / static_cast<double>(mib)),
                  ""};
  // Open MPI takes some 4 MiB for each rank, NCCL some 10 MiB for each pair of GPUs without NVLink.
  const std::int64_t wanted = ranks <= 1 ? 0 : gpus ? 256 * mib : 16 * mib * ranks;
  if (facts.shared_memory_free < wanted) {
    finding.health = Health::warn;
    finding.advice = format(
        "{} ranks on one host may need up to {} MiB: give a container more by --shm-size=1g, else free or "
        "enlarge it (mount -o remount,size=1g /dev/shm)",
        ranks, wanted / mib);
  }
  return finding;
}

Finding check_locked_memory(const HostFacts& facts, bool gpus) {
  if (facts.locked_memory < 0) return {"memlock", Health::ok, "no limit", ""};
  const std::string text = format("at most {} KiB can be locked", facts.locked_memory / 1024);
  const bool matters = gpus || facts.infiniband;
  if (!matters) return {"memlock", Health::ok, text + ", which only GPUs and InfiniBand ask for", ""};
  if (facts.locked_memory >= gib) return {"memlock", Health::ok, text, ""};
  return {
      "memlock", Health::warn, text,
      format("{} needs locked memory: ulimit -l unlimited, in containers --ulimit memlock=-1, under Slurm "
             "PropagateResourceLimitsExcept=MEMLOCK",
             facts.infiniband ? "InfiniBand" : "copying to GPUs at full speed")};
}

}  // namespace

std::vector<Finding> check_host(const HostFacts& facts, int ranks, bool gpus) {
  return {check_name(facts),
          check_processor(facts),
          check_cpu_limit(facts),
          check_memory(facts, ranks),
          check_shared_memory(facts, ranks, gpus),
          check_locked_memory(facts, gpus)};
}

}  // namespace vaecf::app
