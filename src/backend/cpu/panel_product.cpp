#include <vaecf/backend/cpu/storage.hpp>

#include <algorithm>

#include "machine_kernels.hpp"
#include "panels.hpp"
#include "product.hpp"

namespace vaecf::cpu {
namespace {

class Panels : public PackedOperand {
 public:
  AlignedArray<float> values;
};

/// Products in fp32 whose right operand is packed once for many by a kernel of our own, all others by the
/// library.
class PanelEngine : public ProductEngine {
 public:
  explicit PanelEngine(PanelKernel kernel) : kernel_(kernel), library_(make_onednn_engine()) {}

  void run(const ProductSpec& spec, const void* a, const void* b, float* c) override {
    library_->run(spec, a, b, c);
  }

  std::unique_ptr<PackedOperand> make_packed() override { return std::make_unique<Panels>(); }

  void pack(const ProductSpec& s, const void* b, PackedOperand& packed) override {
    auto& panels = static_cast<Panels&>(packed).values;
    panels.reserve((s.n + panel_columns - 1) / panel_columns * panel_columns * s.k);
    const std::int64_t row = s.b_transposed ? 1 : s.ldb;
    const std::int64_t column = s.b_transposed ? s.ldb : 1;
    for (std::int64_t first = 0; first < s.n; first += panel_columns) {
      const std::int64_t width = panel_width(s.n, first);
      const std::int64_t columns = std::min(width, s.n - first);
      const float* from = static_cast<const float*>(b) + first * column;
      float* to = panels.data() + first * s.k;
      for (std::int64_t k = 0; k < s.k; ++k, from += row, to += width) {
        for (std::int64_t i = 0; i < columns; ++i) to[i] = from[i * column];
        std::fill(to + columns, to + width, 0.0F);
      }
    }
  }

  void run_packed(const ProductSpec& s, const void* a, const PackedOperand& packed, float* c) override {
    kernel_({.a = static_cast<const float*>(a),
             .panels = static_cast<const Panels&>(packed).values.data(),
             .c = c,
             .rows = s.m,
             .columns = s.n,
             .reduced = s.k,
             .a_stride = s.lda,
             .c_stride = s.ldc,
             .accumulate = s.accumulate});
  }

 private:
  PanelKernel kernel_;
  std::unique_ptr<ProductEngine> library_;
};

}  // namespace

PanelKernel make_avx2_panels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_panel_kernel();
#endif
  return nullptr;
}

PanelKernel choose_panels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return nullptr;
#endif
  return make_avx2_panels();
}

std::unique_ptr<ProductEngine> make_panel_engine(PanelKernel kernel) {
  return std::make_unique<PanelEngine>(kernel);
}

}  // namespace vaecf::cpu
