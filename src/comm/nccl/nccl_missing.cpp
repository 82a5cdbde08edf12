// Stands in for nccl_communicator.cpp where the program is built without CUDA.
#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>

namespace vaecf::comm {

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&, const std::string&, const NcclOptions&) {
  throw InputError(
      "ranks on GPUs need NCCL, and this program was built without it: install CUDA 12.4 or newer with NCCL and configure again with -DVAECF_CUDA=ON, or use device: cpu");
}

std::string nccl_library() {
  return "";
}

}  // namespace vaecf::comm
