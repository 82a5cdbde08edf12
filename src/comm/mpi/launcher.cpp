#include <vaecf/base/format.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/launcher.hpp>

#include <cstdlib>

namespace vaecf::comm {
namespace {

std::optional<std::int64_t> env_integer(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const std::int64_t value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0') return std::nullopt;
  return value;
}

/// Returns the number of tasks of the srun that started this process, or nullopt if there was none. Shells of
/// sbatch and salloc are steps too, or inherit some variables of a step. They are recognized by their
/// reserved step ids just below 2^32, or by the missing id.
std::optional<int> srun_tasks() {
  constexpr std::int64_t first_reserved_step = 0xfffffff0;
  const auto step = env_integer("SLURM_STEP_ID");
  const auto tasks = env_integer("SLURM_STEP_NUM_TASKS");
  if (!step || *step < 0 || *step >= first_reserved_step) return std::nullopt;
  if (!env_integer("SLURM_PROCID") || !tasks) return std::nullopt;
  return static_cast<int>(*tasks);
}

}  // namespace

std::optional<int> launcher_size() {
  // Under Slurm, mpirun starts its daemons by srun, and the ranks inherit srun's variables. Therefore Open
  // MPI's own variables take precedence.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const auto size = env_integer(variable)) return static_cast<int>(*size);
  }
  return srun_tasks();
}

std::optional<int> launcher_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    if (const auto rank = env_integer(variable)) return static_cast<int>(*rank);
  }
  return std::nullopt;
}

std::string pmi_mismatch_hint() {
  const int tasks = srun_tasks().value_or(1);
  if (tasks <= 1 || env_integer("PMIX_RANK") || env_integer("OMPI_COMM_WORLD_SIZE")) return "";
  return vaecf::format(
      "srun started {} tasks without PMIx; if MPI fails to connect them, use srun --mpi=pmix", tasks);
}

bool launched_by_mpi() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (env_integer(variable)) return true;
  }
  return srun_tasks().value_or(1) > 1;
}

}  // namespace vaecf::comm
