#include "start_rows.hpp"

#include "eights.hpp"

namespace vaecf::cuda {
namespace {

/// A row per block.
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

}  // namespace

void start_rows(Queue& queue, const MatmulSpec& spec, void* c, const void* bias) {
  if (spec.n == 0 || (spec.accumulate && bias == nullptr)) return;
  with_number(spec.result, [&](auto number) {
    using T = decltype(number);
    launch(queue, spec.m,
           StartRow<T>{static_cast<T*>(c), static_cast<const T*>(bias), spec.n, spec.ldc, spec.accumulate});
  });
}

}  // namespace vaecf::cuda
