#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <string>

#include "check.cuh"

namespace vaecf::cuda {
namespace {

std::string version_text(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

enum class Kind {
  lost,
  fault,
  watchdog,
  driver,
  generation,
  memory,
  taken,
  fabric,
  mismatch,
  capture,
  other
};

Kind kind_of(cudaError_t status) {
  switch (static_cast<int>(status)) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
    case 226:  // cudaErrorContained, which older toolkits have no name for
    case cudaErrorUnknown:
      return Kind::lost;
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
      return Kind::fault;
    case cudaErrorLaunchTimeout:
      return Kind::watchdog;
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorUnsupportedPtxVersion:
      return Kind::driver;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return Kind::generation;
    case cudaErrorMemoryAllocation:
      return Kind::memory;
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceAlreadyInUse:
      return Kind::taken;
    case cudaErrorSystemNotReady:
      return Kind::fabric;
    case cudaErrorSystemDriverMismatch:
      return Kind::mismatch;
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return Kind::capture;
    default:
      return Kind::other;
  }
}

std::string advice(Kind kind) {
  switch (kind) {
    case Kind::lost:
      return "; the GPU was lost in mid-run: see `dmesg` for Xid messages and nvidia-smi for its state; "
             "start "
             "again, from the last checkpoint where there is one";
    case Kind::fault:
      return "; a kernel did what it must not, or the GPU fails: see `dmesg` for Xid messages, and let "
             "compute-sanitizer name the kernel; start again, from the last checkpoint where there is one";
    case Kind::watchdog:
      return "; the GPU also drives a display, whose watchdog ends long kernels: use one without a display";
    case Kind::driver:
      return "; " + explain_old_driver();
    case Kind::generation:
      return "; this program was not compiled for this generation of GPUs: configure it again with "
             "-DVAECF_CUDA_ARCHITECTURES=native on this machine, or use device: cpu";
    case Kind::memory:
      return "; the GPU's memory is full: see nvidia-smi for other programs; lower train.batch_size, or set "
             "backend.resident: off";
    case Kind::taken:
      return "; another program has the GPU to itself: see nvidia-smi for its processes and compute mode";
    case Kind::fabric:
      return "; GPUs joined by NVSwitch need NVIDIA's fabric manager: see systemctl status "
             "nvidia-fabricmanager";
    case Kind::mismatch:
      return "; the loaded NVIDIA driver and its libraries are of different versions: restart the machine";
    case Kind::capture:
      return "; a step cannot be recorded in this way, which is a bug: backend.graph: off goes without";
    case Kind::other:
      break;
  }
  return "";
}

/// These end the process's use of the GPU, and come up at whatever call is next, which is innocent.
bool from_earlier_work(Kind kind) {
  return kind == Kind::lost || kind == Kind::fault || kind == Kind::watchdog;
}

std::string size_text(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 100 ? format("{:.1f} MiB", mib) : format("{:.1f} GiB", mib / 1024);
}

}  // namespace

std::string explain(cudaError_t status, const char* what) {
  const Kind kind = kind_of(status);
  const std::string failed = from_earlier_work(kind) ? format("work on the GPU failed at or before {}", what)
                                                     : format("GPU: {} failed", what);
  return format("{}: {} ({}){}", failed, cudaGetErrorString(status), cudaGetErrorName(status), advice(kind));
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
