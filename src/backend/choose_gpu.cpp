#include "choose_gpu.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

namespace vaecf::backend {

int choose_gpu(int devices, const BackendOptions& options) {
  if (devices < 1) throw InputError("there is no GPU to choose from");
  if (devices == 1) return 0;
  if (options.local_size > devices && !options.allow_shared_gpu) {
    throw InputError(
        format("{} ranks of this host see {} GPUs, and each needs one of its own: start at most {} ranks per "
               "host (mpirun --map-by ppr:{}:node), make more GPUs visible (CUDA_VISIBLE_DEVICES), or use "
               "device: cpu; distributed.allow_shared_gpu: true shares them, for tests without regard to "
               "speed",
               options.local_size, devices, devices, devices));
  }
  return options.local_rank % devices;
}

}  // namespace vaecf::backend
