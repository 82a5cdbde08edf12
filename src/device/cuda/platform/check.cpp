#include "device/cuda/platform/check.cuh"

#include <vaecf/base/error.hpp>

#include <string>

namespace vaecf::cuda {
namespace {

std::string version_text(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string explain_old_driver() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  return format(
      "the NVIDIA driver supports CUDA up to {}, but this program requires CUDA {}; update the driver",
      version_text(driver), version_text(CUDART_VERSION));
}

std::string advice(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorUnsupportedPtxVersion:
      return explain_old_driver();
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return "configure the program again with -DVAECF_CUDA_ARCHITECTURES=native on this machine, or use device: cpu";
    case cudaErrorMemoryAllocation:
      return "see nvidia-smi for other programs; lower train.batch_size, or set backend.resident: false";
    case cudaErrorSystemNotReady:
      return "see systemctl status nvidia-fabricmanager, which GPUs connected by NVSwitch require";
    default:
      break;
  }
  if (status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureWrongThread) {
    return "this is a bug; set backend.cuda_graph: false";
  }
  // Kernel and GPU faults are asynchronous: an unrelated later call returns them.
  return "if this call is not the cause, earlier work on the GPU is: see `dmesg` for Xid messages and nvidia-smi for the GPU's state and processes; start again from the last checkpoint; if the error recurs, compute-sanitizer names the kernel";
}

std::string size_text(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 100 ? format("{:.1f} MiB", mib) : format("{:.1f} GiB", mib / 1024);
}

}  // namespace

std::string explain(cudaError_t status, const char* what) {
  return format("GPU: {} failed: {} ({}); {}", what, cudaGetErrorString(status), cudaGetErrorName(status),
                advice(status));
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  // Clears non-sticky errors, which the next kernel launch would return otherwise.
  cudaGetLastError();
  throw RunError(explain(status, what));
}

std::string explain_full_memory(const char* what, std::int64_t bytes, std::int64_t free, std::int64_t total,
                                std::int64_t used_by_run) {
  return format(
      "GPU memory: {} for {} are needed, {} of {} are free ({} are used by this run; for other programs see nvidia-smi); lower train.batch_size, set backend.resident: false, or use more GPUs",
      size_text(bytes), what, size_text(free), size_text(total), size_text(used_by_run));
}

}  // namespace vaecf::cuda
