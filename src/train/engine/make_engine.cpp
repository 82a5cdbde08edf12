#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/backend/cuda_facts.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <initializer_list>

#include "train/engine/engine_of.hpp"
#include "train/engine/make_cuda_engine.hpp"

namespace vaecf::train {

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
bool takes_gpu(const backend::BackendOptions& options) {
  if (options.device != "auto") return options.device == "cuda";
  return options.kernels != "portable" && cuda::availability().devices > 0;
}

}  // namespace

std::unique_ptr<Engine> make_engine(const backend::BackendOptions& options) {
  require_one_of(options.device, "device", {"auto", "cpu", "cuda"});
  require_one_of(options.kernels, "backend.kernels", {"auto", "portable"});
  require_one_of(options.resident, "backend.resident", {"auto", "on", "off"});
  require_one_of(options.graph, "backend.graph", {"auto", "on", "off"});
  if (!takes_gpu(options)) {
    const std::string why_no_gpu = options.device == "auto" ? cuda::availability().reason : "";
    return std::make_unique<EngineOf<cpu::Device>>(cpu::make_device(options, why_no_gpu));
  }
  if (options.kernels == "portable") {
    throw InputError("backend.kernels: portable is for CPUs: use it with device: cpu, or auto with this one");
  }
  return make_cuda_engine(options);
}

}  // namespace vaecf::train
