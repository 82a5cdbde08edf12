// Replaces nccl_communicator.cpp in builds without CUDA.
#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>

namespace vaecf::comm {

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&, const std::string&, const NcclOptions&) {
  throw InputError(
      "several ranks on GPUs need NCCL, but this program was built without it; install CUDA 12.4 or newer with NCCL and configure again with -DVAECF_CUDA=ON, or use device: cpu");
}

std::string nccl_library() {
  return "";
}

}  // namespace vaecf::comm
