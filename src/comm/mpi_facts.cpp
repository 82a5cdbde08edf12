#include <mpi.h>
#include <vaecf/comm/communicator.hpp>

#include <array>
#include <utility>

namespace vaecf::comm {

std::string mpi_transports() {
  // Variables that Open MPI knows if and only if the component is open.
  constexpr std::array<std::pair<const char*, const char*>, 7> components = {
      {{"btl_vader_eager_limit", "shared memory (vader)"},
       {"btl_sm_eager_limit", "shared memory (sm)"},
       {"btl_tcp_eager_limit", "TCP"},
       {"btl_openib_eager_limit", "InfiniBand (openib)"},
       {"btl_uct_eager_limit", "UCX (uct)"},
       {"pml_ucx_verbose", "UCX"},
       {"mtl_ofi_provider_include", "libfabric (ofi)"}}};
  int on = 0;
  int level = 0;
  if (MPI_Initialized(&on) != MPI_SUCCESS || on == 0) return "";
  if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return "";
  std::string found;
  for (const auto& [variable, name] : components) {
    int index = 0;
    if (MPI_T_cvar_get_index(variable, &index) != MPI_SUCCESS) continue;
    found += (found.empty() ? "" : ", ") + std::string(name);
  }
  MPI_T_finalize();
  return found;
}

}  // namespace vaecf::comm
