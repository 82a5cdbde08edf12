#include "data/numpy_random.hpp"

#include <bit>
#include <numeric>

namespace vaecf::data {

std::uint32_t NumpyRandom::interval(std::uint32_t max) {
  if (max == 0) return 0;
  const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(max);
  std::uint32_t value = word() & mask;
  while (value > max) value = word() & mask;
  return value;
}

std::vector<std::int32_t> NumpyRandom::permutation(std::int32_t n) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  shuffle(std::span(values));
  return values;
}

std::vector<std::int32_t> NumpyRandom::choice(std::int32_t n, std::int32_t k) {
  std::vector<std::int32_t> values = permutation(n);
  values.resize(static_cast<std::size_t>(k));
  return values;
}

}  // namespace vaecf::data
