#pragma once

// C++ wrapper of the HDF5 C library: owning handles, checked calls and a lock. Only src/io includes this.

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <hdf5.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

namespace vaecf::io::h5 {

/// Error of an HDF5 call, with the library's innermost message. Public functions convert it to InputError or
/// RunError.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Acquires the process-wide, recursive lock on the HDF5 library and disables the library's error output.
/// Every function that calls the library holds it, because a thread may write a checkpoint while others read,
/// and HDF5 as built on many clusters is not thread-safe. Blocks while another thread holds it.
[[nodiscard]] std::unique_lock<std::recursive_mutex> lock_library();

/// Throws Error("cannot {doing} ({reason})") with the innermost message of the HDF5 error stack.
[[noreturn]] void throw_error(std::string_view doing);

/// Returns `result` if it is not negative; otherwise calls throw_error(doing).
template <std::integral Result>
Result check(Result result, std::string_view doing) {
  if constexpr (std::signed_integral<Result>) {
    if (result < 0) throw_error(doing);
  }
  return result;
}

/// Owns one reference to an HDF5 object.
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

/// Returns whether HDF5 was built with zlib, which deflate requires.
bool can_deflate();

/// Maximum length of an id in bytes, in files written and read.
inline constexpr std::int64_t max_id_bytes = 4096;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

/// Returns the HDF5 type of T in memory and in files. It is not a constant because the library creates it on
/// first use.
template <class T>
hid_t native_type() {
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return H5T_NATIVE_UINT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
}

/// Reads [begin, begin + count) of the first dimension and all of the others into `out`, converted to `type`.
void read_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, void* out);

/// Writes [begin, begin + count) of the first dimension and all of the others; `data` has type `type`.
void write_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, const void* data);

}  // namespace vaecf::io::h5
