#pragma once

#include "app/doctor/finding.hpp"
#include "app/thread_binding.hpp"

#include <string>
#include <vector>

namespace vaecf::app {

/// Where a rank runs.
struct RankPlace {
  std::string host;
  std::vector<int> cores;  ///< that it may use, ascending
  int available = 0;       ///< cores that its launcher may use
  int threads = 1;
};

/// The cores that this process may use.
std::vector<int> own_cores();

/// Of every rank, on all ranks. Collective.
std::vector<RankPlace> gather_places(comm::Communicator& communicator, const RankPlace& mine);

/// How ranks are spread over hosts; whether a launcher started processes that MPI did not join is for
/// whoever makes the communicator.
Finding check_launch(const std::vector<RankPlace>& places);
/// This rank's binding and threads; `wanted` as in binding_advice.
Finding check_binding(const RankPlace& place, int ranks_on_host, int wanted);
/// Per host where threads outnumber the cores that its ranks may use together; one finding where nowhere.
std::vector<Finding> check_oversubscription(const std::vector<RankPlace>& places);

}  // namespace vaecf::app
