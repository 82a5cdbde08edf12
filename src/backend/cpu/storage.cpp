
#include <vaecf/backend/cpu/storage.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace vaecf::cpu {
namespace {

constexpr std::size_t large_page = std::size_t{2} << 20;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes < 2 * large_page ? 64 : large_page};
}

}  // namespace

void* take_memory(std::size_t bytes) {
  void* memory = ::operator new(bytes, alignment_of(bytes));
#ifdef MADV_HUGEPAGE
  // A wish: where the system does not grant it, pages stay small. Before the first touch, or they are there.
  if (alignment_of(bytes) == std::align_val_t{large_page}) {
    (void)madvise(memory, bytes - bytes % large_page, MADV_HUGEPAGE);
  }
#endif
  std::memset(memory, 0, bytes);
  return memory;
}

void give_memory(void* memory, std::size_t bytes) {
  ::operator delete(memory, alignment_of(bytes));
}

Parameters::Parameters(const backend::ParameterLayout& layout, std::int64_t min_size, bool bf16)
    : layout_(layout), master_(std::max(layout.size, min_size)) {
  if (!bf16) return;
  for (const backend::TensorLayout& tensor : layout.tensors) {
    if (tensor.spec.kind != backend::TensorKind::output_table) continue;
    shadowed_ = tensor.range;
    shadow_.resize(tensor.range.size());
  }
}

void Activations::set_rows(std::int64_t rows) {
  if (rows > max_rows_) throw std::logic_error("more rows than these activations have room for");
  rows_ = rows;
}

void BatchOrder::set(std::span<const std::int64_t> rows, std::span<const std::int64_t> begin) {
  if (begin.empty() || begin.front() != 0 || begin.back() != static_cast<std::int64_t>(rows.size()) ||
      !std::is_sorted(begin.begin(), begin.end())) {
    throw std::logic_error("the batches of an order have to lie back to back");
  }
  rows_.assign(rows.begin(), rows.end());
  begin_.assign(begin.begin(), begin.end());
}

}  // namespace vaecf::cpu
