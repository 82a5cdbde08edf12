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
  rows_out(stream, memory, flat.data() + t.range.begin + rows.begin * t.stride, rows.size(), t.spec.columns,
           t.stride, logical.data());
}

struct AddSlices {
  const float* parts;  // (item slices, n)
  int item_slices;
  std::int64_t n;
  float* sums;

  VAECF_HD void operator()(std::int64_t i) const {
    float sum = parts[i];
    for (int s = 1; s < item_slices; ++s) sum += parts[s * n + i];
    sums[i] = sum;
  }
};

std::size_t count_of(std::int64_t n) {
  return static_cast<std::size_t>(n);
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
  rows_in(stream_, staging_, values.data(), rows, to.columns(), to.stride(), to.values());
  write_half_copies(to.values(), to.copy(), rows * to.stride());
}

void Device::read_matrix(const Matrix& from, std::span<float> values) const {
  rows_out(stream_, staging_, from.values(), from.rows(), from.columns(), from.stride(), values.data());
}

void Device::fill(Buffer& buffer, float value) {
  launch_elements(stream_, buffer.size(), Fill{buffer.data(), value});
}

void Device::refresh_copies(Parameters& parameters, Range range) {
  if (!half_precision()) return;
  // Elements after the layout are not read by products.
  const std::int64_t n = std::min(range.end, parameters.layout().size) - range.begin;
  if (n <= 0) return;
  write_half_copies(parameters.master().data() + range.begin, parameters.copy_of(range.begin), n);
}

void Device::cast_to_bf16(const Buffer& from, Range range, Bf16Buffer& to, std::int64_t at) {
  convert(stream_, from.data() + range.begin, to.data() + at, range.size());
}

void Device::cast_to_fp32(const Bf16Buffer& from, Range range, Buffer& to, std::int64_t at) {
  convert(stream_, from.data() + range.begin, to.data() + at, range.size());
}

void Device::copy(const Buffer& from, Range range, Buffer& to, std::int64_t at) {
  stream_.copy(to.data() + at, from.data() + range.begin, range.size() * 4);
}

std::int64_t Exchange::part_size(const Matrix& own) const {
  return batch_.part_rows() * own.stride();
}

void* Exchange::gather_memory(const Matrix& own, DType dtype) {
  if (alone()) return nullptr;
  return device_.scratch_.bytes(Scratch::gathered, model_parallel_.count() * part_size(own) * size_of(dtype),
                                "activations of the model-parallel group's users");
}

const void* Exchange::gather(const Matrix& own, DType dtype) {
  const void* mine = dtype == DType::fp32 ? static_cast<const void*>(own.values()) : own.operand();
  if (alone()) return mine;
  void* all = gather_memory(own, dtype);
  const std::int64_t part = part_size(own);
  const std::size_t size = count_of(part);
  if (part == 0) return all;
  const auto start = [&]<class T>(T) {
    return model_parallel_.all_gather(
        std::span(static_cast<const T*>(mine), size),
        std::span(static_cast<T*>(all), size * count_of(model_parallel_.count())), device_.record_event());
  };
  // The bits of 16-bit values, whatever their type.
  device_.stream_.wait_event((dtype == DType::fp32 ? start(float{}) : start(Bf16{})).event);
  return all;
}

float* Exchange::sums_memory(Matrix& own) {
  own.set_rows(batch_.own().size());
  if (alone()) return own.values();
  return device_.scratch_.get<float>(Scratch::sums_of_all, model_parallel_.count() * part_size(own),
                                     "sums for the model-parallel group's users");
}

EventHandle Exchange::start_sum(const float* all, Matrix& own) {
  if (alone() || batch_.users() == 0) return {};
  const std::size_t size = count_of(part_size(own));
  return model_parallel_.reduce_scatter({all, size * count_of(model_parallel_.count())}, {own.values(), size},
                                        device_.record_event());
}

float* Exchange::values_memory(std::int64_t n) {
  return device_.scratch_.get<float>(Scratch::exchanged, (1 + model_parallel_.count()) * n,
                                     "values of the model-parallel group's item slices");
}

const float* Exchange::gather_values(std::int64_t n) {
  float* mine = values_memory(n);
  if (alone()) return mine;
  float* all = mine + n;
  if (n == 0) return all;
  const EventHandle done = model_parallel_.all_gather(std::span<const float>(mine, count_of(n)),
                                                      std::span(all, count_of(model_parallel_.count() * n)),
                                                      device_.record_event());
  device_.stream_.wait_event(done.event);
  return all;
}

void Exchange::add_over_item_slices(float* values, std::int64_t n) {
  if (alone()) return;
  device_.stream_.copy(values_memory(n), values, n * 4);
  const float* all = gather_values(n);
  launch_elements(device_.stream_, n, AddSlices{all, model_parallel_.count(), n, values});
}

}  // namespace vaecf::cuda
