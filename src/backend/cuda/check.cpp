#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <string>

#include "check.cuh"

namespace vaecf::cuda {
namespace {

std::string version_text(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

/// These end the process's use of the GPU, and come up at whatever call is next, which is innocent.
bool from_earlier_work(cudaError_t status) {
  switch (static_cast<int>(status)) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226:  // cudaErrorContained, which older toolkits have no name for
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
      return true;
    default:
      return false;
  }
}

std::string advice(cudaError_t status) {
  switch (status) {
    case cudaErrorLaunchTimeout:
      return "; the GPU also drives a display, whose watchdog ends long kernels: use one without a display";
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorUnsupportedPtxVersion:
      return "; " + explain_old_driver();
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return "; configure the program again with -DVAECF_CUDA_ARCHITECTURES=native on this machine, or use "
             "device: cpu";
    case cudaErrorMemoryAllocation:
      return "; see nvidia-smi for other programs; lower train.batch_size, or set backend.resident: off";
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceAlreadyInUse:
      return "; see nvidia-smi for the GPU's processes and compute mode";
    case cudaErrorSystemNotReady:
      return "; see systemctl status nvidia-fabricmanager, which GPUs joined by NVSwitch need";
    case cudaErrorSystemDriverMismatch:
      return "; restart the machine";
    default:
      break;
  }
  if (from_earlier_work(status)) {
    return "; see `dmesg` for Xid messages and nvidia-smi for the GPU's state; start again, from the last "
           "checkpoint if there is one; if it comes again, compute-sanitizer names the kernel";
  }
  if (status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureWrongThread) {
    return "; this is a bug: set backend.graph: off";
  }
  return "";
}

std::string size_text(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 100 ? format("{:.1f} MiB", mib) : format("{:.1f} GiB", mib / 1024);
}

}  // namespace

std::string explain(cudaError_t status, const char* what) {
  const std::string failed = from_earlier_work(status)
                                 ? format("work on the GPU failed at or before {}", what)
                                 : format("GPU: {} failed", what);
  return format("{}: {} ({}){}", failed, cudaGetErrorString(status), cudaGetErrorName(status),
                advice(status));
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  // Errors that pass would otherwise show again at the next kernel's start.
  cudaGetLastError();
  throw RunError(explain(status, what));
}

std::string explain_old_driver() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  return format("the NVIDIA driver knows CUDA up to {}, this program needs {}: update the driver",
                version_text(driver), version_text(CUDART_VERSION));
}

std::string explain_full_memory(const char* what, std::int64_t bytes, const MemoryState& memory) {
  return format(
      "GPU memory: {} for {} are needed, {} of {} are free ({} are this run's own; for other programs see "
      "nvidia-smi); lower train.batch_size, or set backend.resident: off, or spread the run over more GPUs",
      size_text(bytes), what, size_text(memory.free), size_text(memory.total), size_text(memory.ours));
}

}  // namespace vaecf::cuda
