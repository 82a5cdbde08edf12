
#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "parallel.hpp"
#include "product.hpp"
#include "tile_kernels.hpp"
#include "vector_kernels.hpp"
#include "workspace.hpp"

namespace vaecf::cpu {

static_assert(backend::Device<Device>);

Device::Device(int threads, backend::Precision precision, bool portable,
               std::shared_ptr<const TileKernels> tiles, PanelKernel panels)
    : threads_(threads),
      precision_(precision),
      portable_(portable),
      tiles_(precision == backend::Precision::bf16 ? std::move(tiles) : nullptr),
      panels_(precision == backend::Precision::fp32 && !portable ? panels : nullptr),
      workspace_(std::make_unique<Workspace>()) {
  for (int t = 0; t < threads_; ++t) {
    engines_.push_back(portable  ? make_portable_engine()
                       : panels_ ? make_panel_engine(panels_)
                                 : make_onednn_engine());
  }
  workspace_->threads.resize(static_cast<std::size_t>(threads_));
  workspace_->forward_operand = engines_[0]->make_packed();
  workspace_->gradient_operand = engines_[0]->make_packed();
}

Device::~Device() = default;

std::string Device::description() const {
  std::string products = "fp32";
  if (bf16()) {
    products = "bf16 with fp32 sums and master weights";
    if (!portable_) {
      switch (bf16_products()) {
        case Bf16Products::amx:
          products += " (AMX)";
          break;
        case Bf16Products::avx512:
          products += " (AVX-512)";
          break;
        case Bf16Products::rounded:
          products = "fp32 on operands rounded to bf16 (this CPU has no bf16 products)";
          break;
      }
    }
  }
  const char* kernel = tiles_ ? tiles_->name() : panels_ ? "AVX2" : nullptr;
  const std::string own = kernel ? format(", output layer by an own kernel ({})", kernel) : "";
  return format("cpu, {} thread{}, products in {} by {}{}, row math in {}", threads_,
                threads_ == 1 ? "" : "s", products, portable_ ? "plain loops" : onednn_version(), own,
                vector_isa());
}

void Device::fill(FloatBuffer& buffer, float value) {
  on_ranges(threads_, buffer.size(), 1024,
            [&](int, Range part) { std::fill_n(buffer.data() + part.begin, part.size(), value); });
}

void Device::narrow(const FloatBuffer& from, Range range, NarrowBuffer& to, std::int64_t at) {
  on_ranges(threads_, range.size(), 1024, [&](int, Range part) {
    vaecf::cpu::narrow(from.data() + range.begin + part.begin, to.data() + at + part.begin, part.size());
  });
}

void Device::widen(const NarrowBuffer& from, Range range, FloatBuffer& to, std::int64_t at) {
  on_ranges(threads_, range.size(), 1024, [&](int, Range part) {
    vaecf::cpu::widen(from.data() + range.begin + part.begin, to.data() + at + part.begin, part.size());
  });
}

void Device::copy(const FloatBuffer& from, Range range, FloatBuffer& to, std::int64_t at) {
  on_ranges(threads_, range.size(), 1024, [&](int, Range part) {
    std::copy_n(from.data() + range.begin + part.begin, part.size(), to.data() + at + part.begin);
  });
}

void Device::write_activations(Activations& to, std::int64_t rows, std::span<const float> values) {
  to.set_rows(rows);
  std::copy(values.begin(), values.end(), to.row(0));
}

void Device::read_activations(const Activations& from, std::span<float> values) const {
  std::copy_n(from.row(0), values.size(), values.data());
}

void Device::column_sums(const Activations& d, float* to) {
  on_ranges(threads_, d.columns(), 16, [&](int, Range columns) {
    std::fill_n(to + columns.begin, columns.size(), 0.0F);
    for (std::int64_t r = 0; r < d.rows(); ++r) {
      add(to + columns.begin, d.row(r) + columns.begin, columns.size());
    }
  });
}

}  // namespace vaecf::cpu
