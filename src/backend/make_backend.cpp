#include <vaecf/backend/backend.hpp>
#include <vaecf/backend/cuda_device.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <omp.h>

#include <initializer_list>

#include "cpu/cpu_backend.hpp"
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

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) {
  if (options.precision == Precision::fp16 || options.precision == Precision::tf32) {
    throw InputError(
        format("train.precision: {0} needs a GPU, no CPU has {0} products{1}; use bf16, fp32 or auto",
               to_string(options.precision),
               options.device == "auto" ? ", and " + cuda::availability().reason : ""));
  }
  const bool portable = options.kernels == "portable";
  Precision precision = options.precision;
  if (precision == Precision::automatic) {
    precision =
        !portable && cpu::bf16_products() == cpu::Bf16Products::amx ? Precision::bf16 : Precision::fp32;
  }
  const int threads = options.threads > 0 ? options.threads : omp_get_max_threads();
  cpu::LateUpdates late = portable ? cpu::LateUpdates::off : cpu::LateUpdates::where_it_pays;
  if (options.late_updates != "auto") {
    late = options.late_updates == "on" ? cpu::LateUpdates::on : cpu::LateUpdates::off;
  }
  return std::make_unique<cpu::CpuBackend>(threads, precision, portable, late,
                                           portable ? nullptr : cpu::choose_tiles());
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
  require_one_of(options.late_updates, "late_updates", {"auto", "on", "off"});
  require_one_of(options.resident, "backend.resident", {"auto", "on", "off"});
  require_one_of(options.graph, "backend.graph", {"auto", "on", "off"});
  if (!takes_gpu(options)) return make_cpu_backend(options);
  if (options.kernels == "portable") {
    throw InputError("backend.kernels: portable is for CPUs: use it with device: cpu, or auto with this one");
  }
  return cuda::make_cuda_backend(options);
}

}  // namespace vaecf::backend
