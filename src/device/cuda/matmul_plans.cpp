#include <vaecf/base/text.hpp>

#include <string>
#include <utility>
#include <vector>

#include "device/cuda/split_matmuls.hpp"

namespace vaecf::cuda {

std::vector<std::string> SplitMatmuls::plans() const {
  const auto name = [](DType dtype) {
    return dtype == DType::fp32 ? "fp32" : dtype == DType::bf16 ? "bf16" : "fp16";
  };
  std::vector<std::string> lines;
  for (const PlannedMatmul& plan : matmuls_.plans()) {
    const MatmulSpec& s = plan.spec;
    std::string line =
        format("({}, {}){} x ({}, {}){} in {} to {}{}", s.m, s.k, s.a_transposed ? "'" : "", s.k, s.n,
               s.b_transposed ? "'" : "", name(s.operands), name(s.result), s.bias ? " with bias" : "");
    if (!plan.algorithm.empty()) line += ": " + plan.algorithm;
    if (plan.seconds > 0.0) {
      const double flop =
          2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
      line += format(", {:.1f} us, {:.0f} TFLOP/s, the next {:.1f} us", 1e6 * plan.seconds,
                     1e-12 * flop / plan.seconds, 1e6 * plan.runner_up);
    }
    if (!meets_tensor_core_rule(s)) line += ", slow: rows are not whole pieces of 16 bytes";
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace vaecf::cuda
