#pragma once

#include <string>
#include <vector>

namespace vaecf::comm {

/// What the MPI library that runs in this process brought along to carry messages; which of it two ranks use
/// is its own choice. Empty names where it does not tell, or has not started.
struct MpiTransports {
  std::vector<std::string> names;      ///< "shared memory (vader)", "TCP", "UCX", ...
  std::vector<std::string> chosen_by;  ///< the user's own settings: "OMPI_MCA_btl=tcp,self"
};

MpiTransports mpi_transports();

}  // namespace vaecf::comm
