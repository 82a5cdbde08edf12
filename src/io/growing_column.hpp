#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace vaecf::io {

/// A dataset of one dimension that grows by whole chunks while it is written; a short one is stored in one
/// piece, unless it is deflated. Throws h5::Failure.
template <class T>
class GrowingColumn {
 public:
  GrowingColumn(std::string path, int deflate) : path_(std::move(path)), deflate_(deflate) {}

  void append(hid_t file, std::span<const T> values) {
    while (!values.empty()) {
      const std::size_t count = std::min(values.size(), chunk_elements - buffer_.size());
      buffer_.insert(buffer_.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
      values = values.subspan(count);
      if (buffer_.size() == chunk_elements) flush(file);
    }
  }

  /// Writes what is left. Nothing may be appended afterwards.
  void finish(hid_t file) {
    if (dataset_.empty()) {
      const hsize_t size = buffer_.size();
      const hsize_t chunk = deflate_ > 0 ? std::max<hsize_t>(1, size) : 0;
      dataset_ = h5::create_dataset(file, path_, h5::memory_type<T>(), {&size, 1}, chunk, deflate_);
      h5::write_rows(dataset_.id(), h5::memory_type<T>(), 0, static_cast<std::int64_t>(size), buffer_.data());
      written_ = static_cast<std::int64_t>(size);
    } else if (!buffer_.empty()) {
      flush(file);
    }
    buffer_ = {};
  }
  /// After finish(). The library then writes what it still holds, so the order decides where that lies.
  void close() { dataset_.reset(); }

 private:
  static constexpr std::size_t chunk_elements = std::size_t{128} << 10;

  void flush(hid_t file) {
    if (dataset_.empty()) {
      const hsize_t nothing = 0;
      dataset_ =
          h5::create_dataset(file, path_, h5::memory_type<T>(), {&nothing, 1}, chunk_elements, deflate_);
    }
    const hsize_t size = static_cast<hsize_t>(written_) + buffer_.size();
    h5::check(H5Dset_extent(dataset_.id(), &size), format("extend {}", path_));
    h5::write_rows(dataset_.id(), h5::memory_type<T>(), written_, static_cast<std::int64_t>(buffer_.size()),
                   buffer_.data());
    written_ += static_cast<std::int64_t>(buffer_.size());
    buffer_.clear();
  }

  std::string path_;
  int deflate_;
  h5::Handle dataset_;
  std::vector<T> buffer_;
  std::int64_t written_ = 0;
};

}  // namespace vaecf::io
