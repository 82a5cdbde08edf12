#pragma once

// The C library of HDF5 behind three small things: handles that close themselves, calls that throw, and a
// lock around each use. Only src/io includes this.

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <hdf5.h>

#include <concepts>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
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

/// Holds the process-wide lock on the library and keeps it from printing its error stack. Every function that
/// calls the library holds one, because a checkpoint is written by a thread while others read, and HDF5 as
/// built on many clusters is not thread-safe. Blocks while another thread holds one; a thread may hold
/// several.
class LibraryLock {
 public:
  LibraryLock();
  ~LibraryLock();
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

[[noreturn]] void throw_failure(std::string_view doing);

/// `result` where it is not negative; otherwise Failure("cannot {doing}: {why}").
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
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  hid_t id() const { return id_; }
  bool empty() const { return id_ < 0; }
  void reset() noexcept;

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// The library's name for T. Not a constant: the library makes it at its first use.
template <class T>
hid_t memory_type() {
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_NATIVE_UINT64;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
}

/// Reads [begin, begin + count) of the first dimension, all of the others; `out` holds them as `type`.
void read_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, void* out);

/// The same for a dataset of one dimension: fills `out`.
template <class T>
void read_elements(hid_t dataset, std::int64_t begin, std::span<T> out) {
  read_rows(dataset, memory_type<T>(), begin, static_cast<std::int64_t>(out.size()), out.data());
}

/// Writes [begin, begin + count) of the first dimension, all of the others.
void write_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, const void* data);

/// Creates a dataset and the groups above it. No modification times: the same data make the same bytes.
/// `chunk` = 0: stored in one piece; otherwise extendible (one dimension only), and shuffled
/// and deflated where `deflate` is 1 to 9.
Handle create_dataset(hid_t file, const std::string& path, hid_t type, std::span<const hsize_t> shape,
                      hsize_t chunk, int deflate = 0);

/// Creates a soft link and the groups above it.
void create_link(hid_t file, const std::string& path, const std::string& target);

/// Runs `work`, which reads `path`; what the library refuses becomes an InputError.
template <class Work>
decltype(auto) reading(const std::string& path, Work&& work) {
  const LibraryLock lock;
  try {
    return work();
  } catch (const Failure& failure) {
    throw InputError(format("{}: {}; the file may be damaged: make or copy it again", path, failure.what()));
  } catch (const std::bad_alloc&) {
    throw InputError(format("{}: what it claims to hold does not fit into this machine's memory", path));
  } catch (const std::length_error&) {
    throw InputError(format("{}: it claims to hold more than any memory can", path));
  }
}

}  // namespace vaecf::io::h5
