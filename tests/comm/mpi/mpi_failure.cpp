// One rank of this program fails in the way given by the argument. The job must end soon, with an exit code
// other than 0.
#include <vaecf/comm/communicator.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void fail_in(vaecf::comm::Communicator& comm, const std::string& how, std::vector<float>& values) {
  const bool last = comm.rank() == comm.size() - 1;
  if (how == "blocking") {
    if (last) throw std::runtime_error("this rank fails");
    comm.barrier();
  } else if (how == "started") {
    // The failing rank takes part in one all-reduce, and starts a second one that no other rank joins.
    const auto request = comm.all_reduce_async(values, {});
    if (!last) {
      comm.wait(request);
      return;
    }
    comm.all_reduce_async(values, {});
    throw std::runtime_error("this rank fails with an unfinished all-reduce");
  } else if (how == "abort") {
    if (last) comm.abort(2);
    comm.barrier();
  }
}

}  // namespace

int main(int, char** argv) {
  std::vector<float> values(1 << 20, 1.0F);
  try {
    const auto comm = vaecf::comm::make_mpi_communicator();
    fail_in(*comm, argv[1], values);
    comm->barrier();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
