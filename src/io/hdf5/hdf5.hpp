#pragma once

#include <vaecf/base/failure.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <hdf5.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/files/file_system.hpp"

/// C++ wrapper of the HDF5 C library: owning handles, checked calls and a lock. Only src/io includes this.
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
[[nodiscard]] bool can_deflate();

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

namespace vaecf::io {

/// Throws InputError unless `path` is a readable regular file. `make` is advice on how to obtain one.
void require_file(const std::string& path, const std::string& make);

/// A dataset that passed the checks of Hdf5Reader::open.
struct Hdf5Dataset {
  h5::Handle id;
  h5::Handle type;
  std::string name;                 ///< path of the dataset, for messages
  std::vector<std::int64_t> shape;  ///< one element per dimension
  int deflate = 0;                  ///< deflate level, 0 if not deflated

  H5T_class_t kind() const { return H5Tget_class(type.id()); }
  /// Returns the elements [begin, begin + count) of a one-dimensional dataset.
  template <class T>
  std::vector<T> read(std::int64_t begin, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    h5::read_rows(id.id(), h5::native_type<T>(), begin, count, values.data());
    return values;
  }
};

/// HDF5 file opened for reading without file locks, whose objects are validated before use. All members
/// except as_input_error() must be called inside as_input_error(). They throw InputError or h5::Error.
class Hdf5Reader {
 public:
  /// `make`: advice on how to obtain such a file. `beside_others`: other users of HDF5 in this process, such
  /// as h5py, may have the file open, too. Throws InputError if the file cannot be opened.
  Hdf5Reader(std::string path, const std::string& make, bool beside_others = false);

  /// Runs `work`, which reads the file, under the library's lock. Throws InputError if the library reports an
  /// error or memory is insufficient.
  template <class Work>
  decltype(auto) as_input_error(Work&& work) const {
    const auto lock = h5::lock_library();
    try {
      return work();
    } catch (const h5::Error& failure) {
      refuse_damaged(failure.what());
    } catch (const std::bad_alloc&) {
      refuse("its declared contents do not fit into the memory of this machine");
    } catch (const std::length_error&) {
      refuse("its declared contents do not fit into any memory");
    }
  }

  const std::string& path() const { return path_; }
  hid_t id() const { return file_.id(); }
  /// Returns whether the object `path` exists. Throws InputError for dangling, cyclic and external links.
  bool has(const std::string& path) const;
  /// Opens an HDF5 group or a dataset. Throws InputError if it does not exist.
  h5::Handle open_object(const std::string& path) const;
  /// Opens a dataset. Throws InputError for HDF5 groups, variable-length types, storage in other files,
  /// filters except shuffle and deflate, more than `max_dimensions` dimensions, and shapes larger than the
  /// stored bytes allow.
  Hdf5Dataset open(const std::string& path, int max_dimensions) const;
  /// Returns the scalar integers, floating-point values and strings of the root HDF5 group, and its lists of
  /// floating-point values. Other attributes are skipped. Throws InputError for variable-length types.
  Attributes attributes() const;
  /// Returns the ids in a dataset of integers or fixed-length strings. Throws InputError for other types and
  /// for integers beyond int64.
  IdList ids(const std::string& path) const;
  /// Throws OtherFormatError if the file's attribute `requires` names something, such as a meaning of its
  /// arrays, that its readers must implement: names separated by commas, none of which this version
  /// implements; or if its interaction weights follow an unknown rule.
  void require_known(const Attributes& attributes) const;
  /// Throws FileInUseError if the file is locked, else InputError with advice to create it again.
  [[noreturn]] void refuse_damaged(const std::string& problem) const;
  /// Throws InputError("{path}: {problem}").
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  void reject_variable_length(hid_t type, const std::string& what) const;
  void check_storage(Hdf5Dataset& dataset) const;
  void read_attribute(hid_t attribute, Attributes& to) const;

  std::string path_;
  h5::Handle links_;  // access property list that rejects external links
  h5::Handle file_;
};

/// HDF5 file that is written atomically.
class Hdf5Writer {
 public:
  /// `user_block`: bytes reserved before the HDF5 data (0, or a power of two from 512).
  explicit Hdf5Writer(const std::string& path, hsize_t user_block = 0);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  const std::string& path() const { return output_.path(); }
  hid_t id() const { return file_.id(); }
  int descriptor() const { return output_.descriptor(); }

  /// Runs `work`, which calls the HDF5 library, under its lock. Throws RunError if the library or the disk
  /// reports an error.
  template <class Work>
  void write(Work&& work) {
    const auto lock = h5::lock_library();
    try {
      work();
    } catch (const h5::Error& failure) {
      throw_if_disk_failed();
      throw CausedError(FailureCode::disk, format("{}: {}", path(), failure.what()));
    }
    throw_if_disk_failed();
  }
  /// Creates a dataset and its parent HDF5 groups, without modification times, so that equal data give an
  /// identical file. With `chunk` = 0 the dataset has contiguous layout. Otherwise it has one dimension, is
  /// extendible, and is shuffled and deflated if `deflate` is 1 to 9.
  h5::Handle create(const std::string& path, hid_t type, std::span<const hsize_t> shape, hsize_t chunk = 0,
                    int deflate = 0);
  template <class T>
  void write_array(const std::string& path, std::span<const T> values) {
    const hsize_t size = values.size();
    const h5::Handle dataset = create(path, h5::native_type<T>(), {&size, 1});
    write([&] { h5::write_rows(dataset.id(), h5::native_type<T>(), 0, std::ssize(values), values.data()); });
  }
  /// Creates a soft link and its parent HDF5 groups.
  void link(const std::string& path, const std::string& target);
  /// Writes ids as int64 or as fixed-length strings. Throws InputError if an id is longer than
  /// h5::max_id_bytes.
  void write_ids(const std::string& path, const IdList& ids);
  /// Writes attributes of the root HDF5 group, and `written_by`; strings have fixed length.
  void write_attributes(const Attributes& attributes);

  /// Closes the HDF5 file. All bytes of descriptor() except the user block are then final.
  void finish();
  /// Gives the file its final name, after finish() unless that was called.
  void commit() {
    if (!file_.empty()) finish();
    output_.commit();
  }

  /// Output of the HDF5 file driver.
  struct Target {
    int descriptor = -1;
    int error = 0;  ///< errno of the first failed write
  };

 private:
  void make_hdf5_groups(const std::string& path);
  void throw_if_disk_failed() const;

  AtomicOutputFile output_;
  Target target_;
  h5::Handle driver_;
  h5::Handle file_;
};

}  // namespace vaecf::io
