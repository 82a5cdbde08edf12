#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/timeline.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace vaecf::comm {

/// The element types of collectives. `byte` is summed and compared as uint8. Only non-blocking collectives
/// support bf16.
enum class ElementType { byte, int64, float32, float64, bf16 };

/// Returns the ElementType of `T`; any type of one byte is `byte`.
template <class T>
constexpr ElementType element_type() {
  if constexpr (std::is_same_v<T, float>)
    return ElementType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return ElementType::float64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return ElementType::int64;
  else if constexpr (std::is_same_v<T, Bf16>)
    return ElementType::bf16;
  else {
    static_assert(sizeof(T) == 1, "the element type must be float, double, Bf16, int64_t or one byte");
    return ElementType::byte;
  }
}

/// The operation of a blocking all-reduce: MPI_SUM, MPI_MAX or MPI_MIN. Non-blocking collectives sum.
enum class Reduction { sum, max, min };

/// The handle of a non-blocking collective, as MPI_Request. All ranks must start these in the same order.
struct Request {
  std::int64_t id = -1;
};

enum class CollectiveKind { all_reduce_sum, reduce_scatter_sum, all_gather };

constexpr const char* to_string(CollectiveKind kind) {
  constexpr std::array<const char*, 3> names = {"all-reduce", "reduce-scatter", "all-gather"};
  return names[static_cast<std::size_t>(kind)];
}

/// The arguments of a non-blocking collective on fp32 or bf16 elements.
struct AsyncCollective {
  CollectiveKind kind = CollectiveKind::all_reduce_sum;
  ElementType type = ElementType::float32;
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;  ///< elements: all of them for an all-reduce, otherwise those of one rank's part

  std::size_t element_bytes() const { return type == ElementType::bf16 ? sizeof(Bf16) : sizeof(float); }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * element_bytes(); }
  std::size_t in_bytes(int ranks) const {
    return bytes() * static_cast<std::size_t>(kind == CollectiveKind::reduce_scatter_sum ? ranks : 1);
  }
  std::size_t out_bytes(int ranks) const {
    return bytes() * static_cast<std::size_t>(kind == CollectiveKind::all_gather ? ranks : 1);
  }
};

}  // namespace vaecf::comm
