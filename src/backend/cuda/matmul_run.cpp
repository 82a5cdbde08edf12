#include <vaecf/base/error.hpp>

#include <stdexcept>
#include <string>

#include "eights.hpp"
#include "launch.hpp"

namespace vaecf::cuda {
namespace {

/// One block per row: c = bias, or c += bias if `accumulate` is set.
template <class T>
struct StartRow {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;

  T* c;
  const T* bias;  // null: none
  std::int64_t columns;
  std::int64_t stride;
  bool accumulate;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    T* row = c + block * stride;
    lanes.each(columns, [&](std::int64_t column) {
      float value = accumulate ? widened(row[column]) : 0.0F;
      if (bias != nullptr) value += widened(bias[column]);
      row[column] = narrowed<T>(value);
    });
  }
};

void start_rows(Queue& queue, const MatmulSpec& spec, void* c, const void* bias) {
  if (spec.accumulate && bias == nullptr) return;
  with_number(spec.result, [&](auto number) {
    using T = decltype(number);
    launch(queue, spec.m,
           StartRow<T>{static_cast<T*>(c), static_cast<const T*>(bias), spec.n, spec.ldc, spec.accumulate});
  });
}

}  // namespace

void Matmuls::run(Queue& queue, const MatmulSpec& spec, const void* a, const void* b, void* c,
                  const void* bias) {
  if (spec.bias != (bias != nullptr)) throw std::logic_error("a product's bias is missing, or too much");
  if (spec.m == 0 || spec.n == 0) return;
  if (spec.k == 0) return start_rows(queue, spec, c, bias);
  if (spec.bias && !aligned(bias)) {
    // The product itself adds the bias, so that a 16-bit result is rounded once.
    const std::int64_t bytes = spec.n * size_of(spec.result);
    if (bias_copies_.empty() || bias_copies_.back().bytes() < bytes) {
      bias_copies_.emplace_back(gpu_, bytes, "a product's bias");
    }
    queue.copy(bias_copies_.back().data(), bias, bytes);
    bias = bias_copies_.back().data();
  }
  if (try_run(queue, spec, a, b, c, bias)) return;
  if (spec.bias) {  // without an algorithm that adds it
    start_rows(queue, spec, c, bias);
    MatmulSpec rest = spec;
    rest.bias = false;
    rest.accumulate = true;
    if (try_run(queue, rest, a, b, c, nullptr)) return;
  }
  const auto shape = [](std::int64_t rows, std::int64_t columns) {
    return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
  };
  throw RunError("GPU: cuBLASLt has no algorithm for a product of " + shape(spec.m, spec.k) + " by " +
                 shape(spec.k, spec.n) + "; set train.precision: fp32, which needs the least support");
}

}  // namespace vaecf::cuda
