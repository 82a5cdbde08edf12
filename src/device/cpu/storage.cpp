#include <vaecf/base/host.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {

using device::TensorKind;

/// Returns whether a tensor with one column per item is stored item-major.
static bool stores_items(TensorKind kind) {
  return kind == TensorKind::output_table || kind == TensorKind::item_table;
}

Parameters Device::make_parameters(const ParameterLayout& layout, std::int64_t min_size) {
  // The output table is the only tensor large enough to need a copy.
  Range copied;
  for (const TensorLayout& tensor : layout.tensors)
    if (bf16() && stores_items(tensor.spec.kind)) copied = tensor.range;
  return {layout, make_buffer(std::max(layout.size, min_size)), copied,
          device::Array<std::uint16_t>(AlignedArray<std::uint16_t>(copied.size()))};
}

std::int64_t UserRows::entries_of(std::span<const std::int64_t> rows) const {
  std::int64_t entries = 0;
  for (const std::int64_t row : rows) entries += csr.row_size(row);
  return entries;
}

void BatchSchedule::set_next(std::span<const std::int64_t> rows, std::span<const std::int64_t> begins) {
  if (begins.empty() || begins.front() != 0 || begins.back() != static_cast<std::int64_t>(rows.size()) ||
      !std::is_sorted(begins.begin(), begins.end())) {
    throw std::logic_error("BatchSchedule::set_next: the batches of an order must be contiguous");
  }
  next_rows_.assign(rows.begin(), rows.end());
  next_begin_.assign(begins.begin(), begins.end());
}

void BatchSchedule::start_next() {
  if (next_begin_.empty()) return;
  rows_.swap(next_rows_);
  begin = std::exchange(next_begin_, {});
}

ParameterLayout Device::plan_parameters(std::span<const TensorSpec> tensors) const {
  constexpr std::int64_t alignment = 16;  // floats: one cache line
  const auto round_up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  ParameterLayout layout;
  for (const TensorSpec& spec : tensors) {
    TensorLayout tensor;
    tensor.spec = spec;
    tensor.transposed = stores_items(spec.kind);
    tensor.stride = tensor.transposed ? spec.rows : spec.columns;
    std::int64_t size = spec.rows * spec.columns;
    if (tensor.transposed) size = spec.rows * round_up(spec.columns, tile_items);
    if (spec.kind == TensorKind::output_bias) size = round_up(spec.columns, tile_items);
    tensor.range = {layout.size, layout.size + round_up(size, alignment)};
    layout.size = tensor.range.end;
    layout.tensors.push_back(std::move(tensor));
  }
  return layout;
}

/// Calls copy(logical element, flat element, n) for contiguous ranges that cover `rows` of the tensor: whole
/// rows or, if the tensor is stored transposed, single elements.
template <class Copy>
static void for_rows(const TensorLayout& t, Range rows, int threads, const Copy& copy) {
  const std::int64_t columns = t.spec.columns;
  if (!t.transposed) return copy(0, t.range.begin + rows.begin * columns, rows.size() * columns);
  parallel_for_static(threads, columns, 16, [&](int, Range part) {
    for (std::int64_t c = part.begin; c < part.end; ++c) {
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        copy((r - rows.begin) * columns + c, t.range.begin + c * t.stride + r, 1);
      }
    }
  });
}

void Device::import_rows(const ParameterLayout& layout, int tensor, Range rows,
                         std::span<const float> logical, Buffer& flat) {
  for_rows(layout.tensors[tensor], rows, threads_, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    std::copy_n(logical.data() + from, n, flat.data() + to);
  });
}

static void copy_out(const TensorLayout& t, Range rows, int threads, const Buffer& flat,
                     std::span<float> logical) {
  for_rows(t, rows, threads, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    std::copy_n(flat.data() + from, n, logical.data() + to);
  });
}

void Device::export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                         std::span<float> logical) const {
  copy_out(layout.tensors[tensor], rows, threads_, flat, logical);
}

void Exporter::export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                           std::span<float> logical) {
  copy_out(layout.tensors[tensor], rows, 1, flat, logical);
}

std::int64_t Device::spare_bytes() const {
  return host_memory().available / 2;
}

void Device::refresh_copies(Parameters& parameters, Range range) {
  const std::int64_t begin = std::max(range.begin, parameters.copied().begin);
  const std::int64_t end = std::min(range.end, parameters.copied().end);
  if (begin >= end) return;
  const float* weights = parameters.master().data() + begin;
  std::uint16_t* bf16_copy = parameters.copy_of(begin);
  parallel_for_static(threads_, end - begin, 1024, [&](int, Range part) {
    to_bf16(weights + part.begin, bf16_copy + part.begin, part.size());
  });
}

float* rows_of_all_users(const Batch& batch, Matrix& own, AlignedArray<float>& memory) {
  const ModelParallelGroup& model_parallel = batch.model_parallel();
  own.set_rows(batch.own().size());
  if (model_parallel.count() == 1) return own.row(0);
  memory.reserve(model_parallel.count() * model_parallel.part_rows(batch.users()) * own.columns());
  return memory.data();
}

void sum_to_owners(const Batch& batch, const float* all, Matrix& own) {
  ModelParallelGroup& model_parallel = batch.model_parallel();
  if (model_parallel.count() == 1) return;
  const std::span<float> part = first_rows(own, model_parallel.part_rows(batch.users()));
  model_parallel.reduce_scatter({all, part.size() * static_cast<std::size_t>(model_parallel.count())}, part,
                                {});
}

const float* gather_from_owners(const Batch& batch, const Matrix& own, AlignedArray<float>& memory) {
  ModelParallelGroup& model_parallel = batch.model_parallel();
  if (model_parallel.count() == 1) return own.row(0);
  const std::span<const float> part = first_rows(own, model_parallel.part_rows(batch.users()));
  const std::int64_t size = model_parallel.count() * std::ssize(part);
  memory.reserve(size);
  model_parallel.all_gather(part, {memory.data(), static_cast<std::size_t>(size)}, {});
  return memory.data();
}

void sum_over_item_slices(ModelParallelGroup& model_parallel, std::span<float> values,
                          AlignedArray<float>& memory) {
  if (model_parallel.count() == 1) return;
  const std::int64_t size = std::ssize(values);
  memory.reserve(model_parallel.count() * size);
  model_parallel.all_gather(values, {memory.data(), static_cast<std::size_t>(model_parallel.count() * size)},
                            {});
  std::copy_n(memory.data(), size, values.data());
  for (int s = 1; s < model_parallel.count(); ++s) add(values.data(), memory.data() + s * size, size);
}

void merge_over_item_slices(ModelParallelGroup& model_parallel, std::span<math::SoftmaxPart<double>> users) {
  if (model_parallel.count() == 1) return;
  const std::size_t n = users.size();
  const auto count = static_cast<std::size_t>(model_parallel.count());
  std::vector<float> part;
  for (const auto& user : users) part.insert(part.end(), {user.maximum, static_cast<float>(user.sum)});
  std::vector<float> all(count * part.size());
  model_parallel.all_gather(part, all, {});
  for (std::size_t u = 0; u < n; ++u) {
    const auto pair = [&](std::size_t s) {
      const float* values = all.data() + 2 * (s * n + u);
      return math::SoftmaxPart<double>{values[0], values[1]};
    };
    math::SoftmaxPart<double> merged;
    for (std::size_t s = 0; s < count; ++s) merged.maximum = std::fmax(merged.maximum, pair(s).maximum);
    for (std::size_t s = 0; s < count; ++s) merged.sum += pair(s).rescaled_sum(merged.maximum);
    users[u] = merged;
  }
}

}  // namespace vaecf::cpu
