#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

namespace vaecf::comm {

/// Returns element counts of messages that are likely to be partitioned wrongly on `ranks` ranks.
inline std::vector<std::int64_t> message_sizes(int ranks) {
  const std::int64_t n = ranks;
  return {0, 1, n - 1, n, n + 1, 61, 64, 199, 4099};
}

/// Runs `body` on every rank of every communicator of this program: the self communicator and thread ranks,
/// or the MPI ranks without and with overlap.
void for_each_communicator(const std::function<void(Communicator&)>& body);

// Inputs of collectives: small integers, which are exact in bf16 too, so that results must equal the serial
// sums bitwise.

template <class T, class Value>
T number(Value value) {
  if constexpr (std::is_same_v<T, Bf16>)
    return Bf16::from(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

inline std::int64_t signed_input(std::int64_t rank, std::int64_t i) {
  return (rank * 7 + i * 3) % 19 - 9;
}

template <class T>
std::vector<T> signed_inputs(int rank, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(number<T>(signed_input(rank, i)));
  return values;
}

/// Returns the sums over `ranks` ranks of `count` elements, starting with element `begin`.
template <class T>
std::vector<T> sums(int ranks, std::int64_t count, std::int64_t begin = 0) {
  std::vector<T> values;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    std::int64_t total = 0;
    for (int r = 0; r < ranks; ++r) total += signed_input(r, i);
    values.push_back(number<T>(total));
  }
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace vaecf::comm
