#include <vaecf/backend/backend.hpp>
#include <vaecf/backend/cuda_device.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <omp.h>

#include "cpu/cpu_backend.hpp"

namespace vaecf::backend {

std::string to_string(Precision precision) {
  switch (precision) {
    case Precision::automatic:
      return "auto";
    case Precision::fp32:
      return "fp32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "unknown";
}

namespace {

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) {
  if (options.precision == Precision::fp16) {
    throw InputError("train.precision: fp16 needs a GPU, no CPU has fp16 products; use bf16, fp32 or auto");
  }
  const bool portable = options.kernels == "portable";
  if (!portable && options.kernels != "auto") {
    throw InputError(format("backend.kernels: \"{}\" is none of auto, portable", options.kernels));
  }
  Precision precision = options.precision;
  if (precision == Precision::automatic) {
    precision =
        !portable && cpu::bf16_products() == cpu::Bf16Products::amx ? Precision::bf16 : Precision::fp32;
  }
  const int threads = options.threads > 0 ? options.threads : omp_get_max_threads();
  return std::make_unique<cpu::CpuBackend>(threads, precision, portable);
}

}  // namespace

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  if (options.device == "auto" || options.device == "cpu") return make_cpu_backend(options);
  if (options.device == "cuda") {
    const cuda::Availability gpu = cuda::availability();
    throw InputError(format(
        "device: cuda cannot be used: {}; use device: cpu or auto",
        gpu.devices > 0 ? format("this version sees {} GPU(s) but has no verbs for them yet", gpu.devices)
                        : gpu.reason));
  }
  throw InputError(format("device: \"{}\" is none of auto, cpu, cuda", options.device));
}

}  // namespace vaecf::backend
