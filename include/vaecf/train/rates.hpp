#pragma once

#include <vaecf/backend/options.hpp>

#include <functional>
#include <string>

namespace vaecf::train {

/// What a machine can do at most, measured now, on the threads or the GPU of one rank.
struct MachineRates {
  double fp32_gflops = 0.0;    ///< large products of fp32 numbers
  double bf16_gflops = 0.0;    ///< of bf16 numbers, summed in fp32
  double memory_gbytes = 0.0;  ///< GB/s read and written, of the memory that holds weights and moments
  std::string fp32_products;   ///< DeviceFacts::description of the device that ran them
  std::string bf16_products;
};

/// Measures with engines made for the purpose, one after the other, with `options` but for the precision.
/// `between` is called before each of the three measurements: a barrier, if ranks are to measure at the same
/// time. Throws what make_engine and Engine::measure throw.
MachineRates measure_rates(backend::BackendOptions options, const std::function<void()>& between = {});

}  // namespace vaecf::train
