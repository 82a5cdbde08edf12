#pragma once

#include <vaecf/backend/backend.hpp>

#include <functional>
#include <string>

namespace vaecf::backend {

/// What a machine can do at most, measured now, on the threads or the GPU of one rank.
struct MachineRates {
  double fp32_gflops = 0.0;    ///< large products of fp32 numbers
  double bf16_gflops = 0.0;    ///< of bf16 numbers, summed in fp32
  double memory_gbytes = 0.0;  ///< GB/s read and written, of the memory that holds weights and moments
  std::string fp32_products;   ///< Backend::description() of the backend that ran them
  std::string bf16_products;
};

/// By backends made for the purpose, one after the other, with `options` but for the precision. `between` is
/// called before each of the three measurements: where ranks shall measure at the same time, it is a barrier.
/// Errors as make_backend and the backend's measurements.
MachineRates measure_rates(BackendOptions options, const std::function<void()>& between = {});

}  // namespace vaecf::backend
