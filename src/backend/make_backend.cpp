#include <vaecf/backend/backend.hpp>
#include <vaecf/backend/cuda_device.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <initializer_list>

#include "cpu/make_cpu_backend.hpp"
#include "cuda/make_cuda_backend.hpp"

namespace vaecf::backend {

namespace {

void require_one_of(const std::string& value, const char* key, std::initializer_list<const char*> choices) {
  std::string list;
  for (const char* choice : choices) {
    if (value == choice) return;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  throw InputError(format("{}: \"{}\" is none of {}", key, value, list));
}

/// Plain loops are a wish that only the CPU can fulfil.
bool takes_gpu(const BackendOptions& options) {
  if (options.device != "auto") return options.device == "cuda";
  return options.kernels != "portable" && cuda::availability().devices > 0;
}

}  // namespace

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  require_one_of(options.device, "device", {"auto", "cpu", "cuda"});
  require_one_of(options.kernels, "backend.kernels", {"auto", "portable"});
  require_one_of(options.resident, "backend.resident", {"auto", "on", "off"});
  require_one_of(options.graph, "backend.graph", {"auto", "on", "off"});
  if (!takes_gpu(options)) {
    return cpu::make_cpu_backend(options, options.device == "auto" ? cuda::availability().reason : "");
  }
  if (options.kernels == "portable") {
    throw InputError("backend.kernels: portable is for CPUs: use it with device: cpu, or auto with this one");
  }
  return cuda::make_cuda_backend(options);
}

}  // namespace vaecf::backend
