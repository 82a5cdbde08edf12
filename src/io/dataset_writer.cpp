#include <vaecf/io/dataset_file.hpp>

#include "io/hdf5_values.hpp"
#include "io/hdf5_writer.hpp"
#include "io/stored_matrix.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace vaecf::io {
namespace {

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

struct MatrixColumns {
  MatrixColumns(const std::string& name, int deflate)
      : offsets(name + "/indptr", deflate), columns(name + "/indices", deflate) {}

  GrowingColumn<std::int64_t> offsets;
  GrowingColumn<std::int32_t> columns;
  std::int64_t rows = 0;
  std::int64_t entries = 0;
  std::int32_t largest = -1;
  bool linked = false;  ///< another name of some other matrix
};

}  // namespace

std::size_t matrix_index(std::string_view name) {
  const auto found = std::ranges::find(matrix_names, name);
  if (found == matrix_names.end()) {
    throw InputError(
        format("a dataset file has no matrix {}; it has train, validation/fold_in, "
               "validation/held_out, test/fold_in and test/held_out, and may have train/features, "
               "validation/features and test/features",
               name));
  }
  return static_cast<std::size_t>(found - matrix_names.begin());
}

struct DatasetWriter::File {
  File(const std::string& path, std::int64_t compression) : writer(path) {
    const std::int64_t first = 0;
    for (const auto name : matrix_names) {
      matrices.emplace_back(std::string(name), static_cast<int>(compression))
          .offsets.append(writer.id(), {&first, 1});
    }
    attributes["format_version"] = std::int64_t{1};
  }

  std::int64_t width(const std::string& name) const {
    const auto found = attributes.find(name);
    const auto* count = found == attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    return count == nullptr ? 0 : *count;
  }

  bool with_features() const { return width("features") > 0; }

  /// Catches what the reader would refuse later, while the caller is still there to be named.
  void check_complete() const {
    if (width("items") == 0) {
      throw RunError(format("{}: the number of items was not set before the commit", writer.path()));
    }
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      const char* const what = m < first_features ? "items" : "features";
      if (matrices[m].largest >= width(what)) {
        throw RunError(format("{}: {} holds column {}, but there are {} {}", writer.path(), matrix_names[m],
                              matrices[m].largest, width(what), what));
      }
    }
    for (std::size_t i = 0; with_features() && i < users_of_features.size(); ++i) {
      const MatrixColumns& known = matrices[first_features + i];
      const MatrixColumns& users = matrices[users_of_features[i]];
      if (!known.linked && !users.linked && known.rows != users.rows) {
        throw RunError(format("{}: {} users have features, but {} are in {}", writer.path(), known.rows,
                              users.rows, matrix_names[users_of_features[i]]));
      }
    }
  }

  Hdf5Writer writer;
  std::vector<MatrixColumns> matrices;
  Attributes attributes;
};

DatasetWriter::DatasetWriter(const std::string& path, std::int64_t compression)
    : file_(std::make_unique<File>(path, compression)) {}
DatasetWriter::~DatasetWriter() = default;
DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;
DatasetWriter& DatasetWriter::operator=(DatasetWriter&&) noexcept = default;

void DatasetWriter::append_row(const std::string& matrix, std::span<const std::int32_t> columns) {
  MatrixColumns& target = file_->matrices[matrix_index(matrix)];
  Hdf5Writer& writer = file_->writer;
  const bool rising = std::ranges::adjacent_find(columns, std::greater_equal<>()) == columns.end();
  if (!rising || (!columns.empty() && columns.front() < 0)) {
    throw RunError(format("{}: row {} of {} does not have ascending, unique columns", writer.path(),
                          target.rows, matrix));
  }
  writer.write([&] {
    target.columns.append(writer.id(), columns);
    target.entries += static_cast<std::int64_t>(columns.size());
    target.offsets.append(writer.id(), {&target.entries, 1});
  });
  ++target.rows;
  if (!columns.empty()) target.largest = std::max(target.largest, columns.back());
}

void DatasetWriter::write_ids(const std::string& path, const IdList& ids) {
  file_->writer.write([&] { write_id_list(file_->writer.id(), path, ids); });
}

void DatasetWriter::link(const std::string& path, const std::string& target) {
  for (std::size_t m = 0; m < matrix_names.size(); ++m) {
    if (matrix_names[m] == path) file_->matrices[m].linked = true;
  }
  file_->writer.write([&] { h5::create_link(file_->writer.id(), path, "/" + target); });
}

void DatasetWriter::set_attribute(const std::string& name, const Attribute& value) {
  file_->attributes[name] = value;
}

void DatasetWriter::commit() {
  file_->check_complete();
  Hdf5Writer& writer = file_->writer;
  writer.write([&] {
    for (std::size_t m = 0; m < matrix_names.size(); ++m) {
      MatrixColumns& matrix = file_->matrices[m];
      if (matrix.linked || (m >= first_features && !file_->with_features())) continue;
      matrix.offsets.finish(writer.id());
      matrix.columns.finish(writer.id());
    }
    write_attributes(writer.id(), file_->attributes);
  });
  for (MatrixColumns& matrix : file_->matrices) {
    matrix.offsets.close();
    matrix.columns.close();
  }
  writer.finish();
  writer.commit();
}

}  // namespace vaecf::io
