#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <omp.h>

#include "product.hpp"
#include "tile_kernels.hpp"

namespace vaecf::cpu {

using backend::Precision;

std::unique_ptr<Device> make_device(const backend::BackendOptions& options, const std::string& why_no_gpu) {
  if (options.precision == Precision::fp16 || options.precision == Precision::tf32) {
    throw InputError(
        format("train.precision: {0} needs a GPU, no CPU has {0} products{1}{2}; use bf16, fp32 or auto",
               to_string(options.precision), why_no_gpu.empty() ? "" : ", and ", why_no_gpu));
  }
  const bool portable = options.kernels == backend::Kernels::portable;
  Precision precision = options.precision;
  if (precision == Precision::automatic) {
    precision = !portable && bf16_products() == Bf16Products::amx ? Precision::bf16 : Precision::fp32;
  }
  const int threads = options.threads > 0 ? options.threads : omp_get_max_threads();
  return std::make_unique<Device>(threads, precision, portable, portable ? nullptr : choose_tiles(),
                                  choose_panels());
}

}  // namespace vaecf::cpu
