#include <mpi.h>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/mpi_facts.hpp>

#include <array>
#include <cstdlib>

namespace vaecf::comm {
namespace {

struct Transport {
  const char* variable;  // one that Open MPI knows exactly where the component is open
  const char* name;
};
constexpr std::array<Transport, 7> transports = {{{"btl_vader_eager_limit", "shared memory (vader)"},
                                                  {"btl_sm_eager_limit", "shared memory (sm)"},
                                                  {"btl_tcp_eager_limit", "TCP"},
                                                  {"btl_openib_eager_limit", "InfiniBand (openib)"},
                                                  {"btl_uct_eager_limit", "UCX (uct)"},
                                                  {"pml_ucx_verbose", "UCX"},
                                                  {"mtl_ofi_provider_include", "libfabric (ofi)"}}};

bool running() {
  int on = 0;
  int over = 0;
  MPI_Initialized(&on);
  MPI_Finalized(&over);
  return on != 0 && over == 0;
}

}  // namespace

MpiTransports mpi_transports() {
  MpiTransports found;
  for (const char* name : {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "UCX_TLS"}) {
    if (const char* value = std::getenv(name)) found.chosen_by.push_back(vaecf::format("{}={}", name, value));
  }
  int level = 0;
  if (!running() || MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return found;
  for (const Transport& transport : transports) {
    int index = 0;
    if (MPI_T_cvar_get_index(transport.variable, &index) == MPI_SUCCESS) {
      found.names.emplace_back(transport.name);
    }
  }
  MPI_T_finalize();
  return found;
}

}  // namespace vaecf::comm
