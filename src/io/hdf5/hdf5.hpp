#pragma once

// The C library of HDF5 behind three small things: handles that close themselves, calls that throw, and a
// lock around each use. Only src/io includes this.

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <hdf5.h>

#include <concepts>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

namespace vaecf::io::h5 {

/// A call of the library that failed, with the library's innermost reason. Public functions turn it into
/// InputError or RunError.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns the process-wide lock on the library, and keeps the library from printing its error stack. Every
/// function that calls the library holds one, because a checkpoint is written by a thread while others read,
/// and HDF5 as built on many clusters is not thread-safe. Blocks while another thread holds one; a thread may
/// hold several.
[[nodiscard]] std::unique_lock<std::recursive_mutex> lock_library();

[[noreturn]] void throw_failure(std::string_view doing);

/// Returns `result` if it is not negative. Throws Failure("cannot {doing}: {why}") otherwise.
template <std::integral Result>
Result check(Result result, std::string_view doing) {
  if constexpr (std::signed_integral<Result>) {
    if (result < 0) throw_failure(doing);
  }
  return result;
}

/// Owns one reference to any object of the library.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, std::string_view doing) : id_(check(id, doing)) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  hid_t id() const { return id_; }
  bool empty() const { return id_ < 0; }
  void reset() noexcept;

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Longer ids are neither written nor read.
inline constexpr std::int64_t max_id_bytes = 4096;

/// Returns the library's name for T. It is not a constant: the library makes it at its first use.
template <class T>
hid_t memory_type() {
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
}

/// Reads [begin, begin + count) of the first dimension, all of the others; `out` holds them as `type`.
void read_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, void* out);

/// Writes [begin, begin + count) of the first dimension, all of the others.
void write_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, const void* data);

}  // namespace vaecf::io::h5
