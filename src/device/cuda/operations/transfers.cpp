#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

// Size of the pinned staging buffer, in floats, for copies between pageable memory and the device: 8 MiB.
constexpr std::int64_t staging_size = std::int64_t{2} << 20;

/// Converts from[i] to to[i], eight at a time if `whole` is set, which requires both to be aligned.
template <class From, class To>
struct Convert {
  const From* from;
  To* to;
  std::int64_t n;
  bool whole;

  VAECF_HD void operator()(std::int64_t eight) const {
    const std::int64_t first = 8 * eight;
    if (whole && first + 8 <= n) {
      store_vec8(to + first, load_vec8(from + first));
    } else {
      for (std::int64_t i = first; i < n && i < first + 8; ++i) to[i] = from_float<To>(to_float(from[i]));
    }
  }
};

template <class From, class To>
void convert(Stream& stream, const From* from, To* to, std::int64_t n) {
  launch_elements(stream, (n + 7) / 8, Convert<From, To>{from, to, n, aligned(from) && aligned(to)});
}

struct Fill {
  float* to;
  float value;
  VAECF_HD void operator()(std::int64_t i) const { to[i] = value; }
};

void require(bool inside) {
  if (!inside) throw std::logic_error("a range exceeds its buffer");
}

bool holds(std::int64_t size, std::int64_t begin, std::int64_t n) {
  return begin >= 0 && n >= 0 && begin + n <= size;
}

/// Calls move(first, n) for as many rows at a time as fit into `memory`, which must hold at least one row.
template <class F>
void for_pieces(PinnedArray<float>& memory, std::int64_t rows, std::int64_t stride, F&& move) {
  if (rows == 0 || stride == 0) return;
  const std::int64_t min_size = std::max(stride, staging_size);
  if (memory.size() < min_size) memory = PinnedArray<float>(min_size);
  const std::int64_t at_once = memory.size() / stride;
  for (std::int64_t first = 0; first < rows; first += at_once) move(first, std::min(at_once, rows - first));
}

/// Copies rows without padding from the host to rows `stride` apart on the device, with zeros in between.
void rows_in(Stream& stream, PinnedArray<float>& memory, const float* logical, std::int64_t rows,
             std::int64_t columns, std::int64_t stride, float* to) {
  for_pieces(memory, rows, stride, [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t r = 0; r < n; ++r) {
      float* row = memory.data() + r * stride;
      std::copy_n(logical + (first + r) * columns, columns, row);
      std::fill_n(row + columns, stride - columns, 0.0F);
    }
    stream.copy_h2d(to + first * stride, memory.data(), n * stride * 4);
    stream.synchronize();
  });
}

/// Copies rows `stride` apart on the device to rows without padding on the host.
void rows_out(Stream& stream, PinnedArray<float>& memory, const float* from, std::int64_t rows,
              std::int64_t columns, std::int64_t stride, float* logical) {
  for_pieces(memory, rows, stride, [&](std::int64_t first, std::int64_t n) {
    stream.copy_d2h(memory.data(), from + first * stride, n * stride * 4);
    stream.synchronize();
    for (std::int64_t r = 0; r < n; ++r) {
      std::copy_n(memory.data() + r * stride, columns, logical + (first + r) * columns);
    }
  });
}

void tensor_out(Stream& stream, PinnedArray<float>& memory, const TensorLayout& t, Range rows,
                const Buffer& flat, std::span<float> logical) {
  require(holds(t.spec.rows, rows.begin, rows.size()) &&
          static_cast<std::int64_t>(logical.size()) == rows.size() * t.spec.columns);
  rows_out(stream, memory, flat.data() + t.range.begin + rows.begin * t.stride, rows.size(), t.spec.columns,
           t.stride, logical.data());
}

}  // namespace

void Device::write_half_copies(const float* from, std::uint16_t* to, std::int64_t n) {
  dispatch_dtype(dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, float>) convert(stream_, from, reinterpret_cast<T*>(to), n);
  });
}

void Device::import_rows(const ParameterLayout& layout, int tensor, Range rows,
                         std::span<const float> logical, Buffer& flat) {
  const TensorLayout& t = layout.tensors[tensor];
  require(holds(t.spec.rows, rows.begin, rows.size()) &&
          static_cast<std::int64_t>(logical.size()) == rows.size() * t.spec.columns);
  rows_in(stream_, staging_, logical.data(), rows.size(), t.spec.columns, t.stride,
          flat.data() + t.range.begin + rows.begin * t.stride);
}

void Device::export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                         std::span<float> logical) const {
  tensor_out(stream_, staging_, layout.tensors[tensor], rows, flat, logical);
}

void Exporter::export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                           std::span<float> logical) {
  gpu_.make_current();
  tensor_out(stream_, staging_, layout.tensors[tensor], rows, flat, logical);
}

std::int64_t Device::spare_bytes() const {
  // Batches, logits and the workspace for timing matrix products may still grow.
  return gpu_.free_bytes() - gpu_.total_bytes() / 8;
}

void Device::write_matrix(Matrix& to, std::int64_t rows, std::span<const float> values) {
  to.set_rows(rows);
  require(static_cast<std::int64_t>(values.size()) == rows * to.columns());
  rows_in(stream_, staging_, values.data(), rows, to.columns(), to.stride(), to.values());
  write_half_copies(to.values(), to.copy(), rows * to.stride());
}

void Device::read_matrix(const Matrix& from, std::span<float> values) const {
  require(static_cast<std::int64_t>(values.size()) == from.rows() * from.columns());
  rows_out(stream_, staging_, from.values(), from.rows(), from.columns(), from.stride(), values.data());
}

void Device::fill(Buffer& buffer, float value) {
  launch_elements(stream_, buffer.size(), Fill{buffer.data(), value});
}

void Device::refresh_copies(Parameters& parameters, Range range) {
  if (!half_precision()) return;
  require(holds(parameters.master().size(), range.begin, range.size()));
  // Elements after the layout are not read by products.
  const std::int64_t n = std::min(range.end, parameters.layout().size) - range.begin;
  if (n <= 0) return;
  write_half_copies(parameters.master().data() + range.begin, parameters.copy_of(range.begin), n);
}

void Device::cast_to_bf16(const Buffer& from, Range range, Bf16Buffer& to, std::int64_t at) {
  require(holds(from.size(), range.begin, range.size()) && holds(to.size(), at, range.size()));
  convert(stream_, from.data() + range.begin, to.data() + at, range.size());
}

void Device::cast_to_fp32(const Bf16Buffer& from, Range range, Buffer& to, std::int64_t at) {
  require(holds(from.size(), range.begin, range.size()) && holds(to.size(), at, range.size()));
  convert(stream_, from.data() + range.begin, to.data() + at, range.size());
}

void Device::copy(const Buffer& from, Range range, Buffer& to, std::int64_t at) {
  require(holds(from.size(), range.begin, range.size()) && holds(to.size(), at, range.size()));
  stream_.copy(to.data() + at, from.data() + range.begin, range.size() * 4);
}

}  // namespace vaecf::cuda
