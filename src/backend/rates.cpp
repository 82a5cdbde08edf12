#include <vaecf/backend/rates.hpp>

namespace vaecf::backend {

MachineRates measure_rates(BackendOptions options, const std::function<void()>& between) {
  const auto meet = [&] {
    if (between) between();
  };
  MachineRates rates;
  options.precision = Precision::fp32;
  {
    const auto backend = make_backend(options);
    rates.fp32_products = backend->description();
    meet();
    rates.fp32_gflops = backend->measure_gemm_rate();
    meet();
    rates.memory_gbytes = backend->measure_memory_rate();
  }
  options.precision = Precision::bf16;
  const auto backend = make_backend(options);
  rates.bf16_products = backend->description();
  meet();
  rates.bf16_gflops = backend->measure_gemm_rate();
  return rates;
}

}  // namespace vaecf::backend
