#include <vaecf/train/engine.hpp>
#include <vaecf/train/rates.hpp>

namespace vaecf::train {

MachineRates measure_rates(backend::BackendOptions options, const std::function<void()>& between) {
  const auto meet = [&] {
    if (between) between();
  };
  MachineRates rates;
  options.precision = backend::Precision::fp32;
  {
    const auto engine = make_engine(options);
    rates.fp32_products = engine->facts().description;
    meet();
    rates.fp32_gflops = engine->measure(Rate::products);
    meet();
    rates.memory_gbytes = engine->measure(Rate::memory);
  }
  options.precision = backend::Precision::bf16;
  const auto engine = make_engine(options);
  rates.bf16_products = engine->facts().description;
  meet();
  rates.bf16_gflops = engine->measure(Rate::products);
  return rates;
}

}  // namespace vaecf::train
