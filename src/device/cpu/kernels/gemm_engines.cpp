#include <algorithm>
#include <utility>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/kernels/tiles.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

/// Products by plain loops. Operands are first converted to fp32 and untransposed; the innermost loop runs
/// along a row of b and of c.
class PortableEngine : public GemmEngine {
 public:
  void run(const MatmulSpec& s, const void* a, const void* b, float* c) override {
    load_b(s, b, b_);
    multiply(s, a, b_.data(), c);
  }
  void pack(const MatmulSpec& s, const float* b, PackedOperand& packed) override { load_b(s, b, packed); }
  void run_packed(const MatmulSpec& s, const float* a, const PackedOperand& packed, float* c) override {
    multiply(s, a, packed.data(), c);
  }

 private:
  static float element(bool bf16, const void* values, std::int64_t index) {
    return bf16 ? vaecf::from_bf16(static_cast<const std::uint16_t*>(values)[index])
                : static_cast<const float*>(values)[index];
  }

  static void load_b(const MatmulSpec& s, const void* b, AlignedArray<float>& to) {
    to.reserve(s.k * s.n);
    for (std::int64_t k = 0; k < s.k; ++k) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        to[k * s.n + j] =
            element(s.operands == DType::bf16, b, s.b_transposed ? j * s.ldb + k : k * s.ldb + j);
      }
    }
  }

  static void multiply(const MatmulSpec& s, const void* a, const float* b, float* c) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      float* row = c + i * s.ldc;
      if (!s.accumulate) std::fill_n(row, s.n, 0.0F);
      for (std::int64_t k = 0; k < s.k; ++k) {
        const float factor =
            element(s.operands == DType::bf16, a, s.a_transposed ? k * s.lda + i : i * s.lda + k);
        const float* from = b + k * s.n;
#pragma omp simd
        for (std::int64_t j = 0; j < s.n; ++j) row[j] += factor * from[j];
      }
    }
  }

  AlignedArray<float> b_;
};

void pack_panels(const MatmulSpec& s, const float* b, PackedOperand& panels) {
  panels.reserve((s.n + panel_columns - 1) / panel_columns * panel_columns * s.k);
  const std::int64_t row = s.b_transposed ? 1 : s.ldb;
  const std::int64_t column = s.b_transposed ? s.ldb : 1;
  for (std::int64_t first = 0; first < s.n; first += panel_columns) {
    const std::int64_t width = panel_width(s.n, first);
    const std::int64_t columns = std::min(width, s.n - first);
    const float* from = b + first * column;
    float* to = panels.data() + first * s.k;
    for (std::int64_t k = 0; k < s.k; ++k, from += row, to += width) {
      for (std::int64_t i = 0; i < columns; ++i) to[i] = from[i * column];
      std::fill(to + columns, to + width, 0.0F);
    }
  }
}

/// Products with a packed operand by panels, others by another engine.
class PanelEngine : public GemmEngine {
 public:
  PanelEngine(PanelKernel panels, std::unique_ptr<GemmEngine> others)
      : panels_(panels), others_(std::move(others)) {}

  void run(const MatmulSpec& spec, const void* a, const void* b, float* c) override {
    others_->run(spec, a, b, c);
  }

  void pack(const MatmulSpec& spec, const float* b, PackedOperand& packed) override {
    pack_panels(spec, b, packed);
  }

  void run_packed(const MatmulSpec& spec, const float* a, const PackedOperand& packed, float* c) override {
    panels_({.a = a,
             .panels = packed.data(),
             .c = c,
             .rows = spec.m,
             .columns = spec.n,
             .reduced = spec.k,
             .a_stride = spec.lda,
             .c_stride = spec.ldc,
             .accumulate = spec.accumulate});
  }

 private:
  PanelKernel panels_;
  std::unique_ptr<GemmEngine> others_;
};

}  // namespace

std::unique_ptr<GemmEngine> make_portable_engine() {
  return std::make_unique<PortableEngine>();
}

std::unique_ptr<GemmEngine> make_engine(PanelKernel panels) {
  if (panels == nullptr) return make_onednn_engine();
  return std::make_unique<PanelEngine>(panels, make_onednn_engine());
}

TileKernels::TileKernels() = default;
TileKernels::~TileKernels() = default;
void TileKernels::enter() const {}
void TileKernels::leave() const {}

}  // namespace vaecf::cpu
