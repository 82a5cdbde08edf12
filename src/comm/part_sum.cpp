#include "part_sum.hpp"

#include <algorithm>
#include <array>

namespace vaecf::comm {
namespace {

float widened(float value) {
  return value;
}
float widened(Bf16 value) {
  return value.value();
}
void store(float& to, float value) {
  to = value;
}
void store(Bf16& to, float value) {
  to = Bf16::from(value);
}

template <class T>
void sum_blocks(std::span<const T* const> terms, std::int64_t count, T* sum) {
  // Stays in the first cache, whatever the number of terms.
  constexpr std::int64_t block = 1024;
  std::array<float, block> total;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t n = std::min(block, count - begin);
    const T* first = terms[0] + begin;
    for (std::int64_t i = 0; i < n; ++i) total[static_cast<std::size_t>(i)] = widened(first[i]);
    for (const T* term : terms.subspan(1)) {
      const T* other = term + begin;
      for (std::int64_t i = 0; i < n; ++i) total[static_cast<std::size_t>(i)] += widened(other[i]);
    }
    T* out = sum + begin;
    for (std::int64_t i = 0; i < n; ++i) store(out[i], total[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

void sum_terms(std::span<const float* const> terms, std::int64_t count, float* sum) {
  sum_blocks(terms, count, sum);
}

void sum_terms(std::span<const Bf16* const> terms, std::int64_t count, Bf16* sum) {
  sum_blocks(terms, count, sum);
}

}  // namespace vaecf::comm
