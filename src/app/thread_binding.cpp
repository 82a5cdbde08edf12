#include "app/thread_binding.hpp"

#include <vaecf/base/format.hpp>

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace vaecf::app {
namespace {

int cores_of(pid_t process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(process, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

Cores look_at_cores() {
  const int own = cores_of(0);
  // mpirun binds its children, not itself: the parent still has all that the job may use.
  return {own, std::max(own, cores_of(getppid()))};
}

int fair_threads(Cores cores, int ranks_on_host) {
  const int share = std::max(1, cores.available / std::max(1, ranks_on_host));
  return cores.bound > 0 ? std::min(cores.bound, share) : share;
}

std::string binding_advice(Cores cores, int ranks_on_host, int wanted, int running) {
  const int fair = std::max(1, cores.available / std::max(1, ranks_on_host));
  const int aim = wanted > 0 ? wanted : fair;
  if (cores.bound >= aim || cores.bound >= cores.available) return "";
  return format(
      "the launcher bound each rank to {} of {} cores, so {} thread{} per rank where {} could run in "
      "parallel; "
      "give mpirun --bind-to none, or --map-by slot:PE={}",
      cores.bound, cores.available, running, running == 1 ? " runs" : "s share them",
      std::min(aim, cores.available), std::min(aim, cores.available));
}

}  // namespace vaecf::app
