#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "io/dataset/stored_matrix.hpp"
#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {
namespace {

/// One-dimensional dataset that grows by whole chunks while it is written. A short one is stored
/// contiguously, unless it is deflated.
template <class T>
class GrowingColumn {
 public:
  GrowingColumn(std::string path, int deflate) : path_(std::move(path)), deflate_(deflate) {}

  void append(Hdf5Writer& file, std::span<const T> values) {
    while (!values.empty()) {
      const std::size_t count = std::min(values.size(), chunk_elements - buffer_.size());
      buffer_.insert(buffer_.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
      values = values.subspan(count);
      if (buffer_.size() == chunk_elements) flush(file, chunk_elements);
    }
  }
  /// Writes the remaining values. Nothing may be appended afterwards.
  void finish(Hdf5Writer& file) {
    flush(file, deflate_ > 0 ? std::max<hsize_t>(1, buffer_.size()) : 0);
    buffer_ = {};
  }
  /// Closes the dataset, after finish(). The library then writes its buffered data, so the order of the calls
  /// determines the file layout.
  void close() { dataset_.reset(); }

 private:
  static constexpr std::size_t chunk_elements = std::size_t{128} << 10;

  /// Writes the buffer. `chunk` is the chunk size of a dataset that does not exist yet.
  void flush(Hdf5Writer& file, hsize_t chunk) {
    const hsize_t size = static_cast<hsize_t>(written_) + buffer_.size();
    if (dataset_.empty()) dataset_ = file.create(path_, h5::native_type<T>(), {&size, 1}, chunk, deflate_);
    file.write([&] {
      if (written_ > 0) h5::check(H5Dset_extent(dataset_.id(), &size), format("extend {}", path_));
      h5::write_rows(dataset_.id(), h5::native_type<T>(), written_, static_cast<std::int64_t>(buffer_.size()),
                     buffer_.data());
    });
    written_ = static_cast<std::int64_t>(size);
    buffer_.clear();
  }

  std::string path_;
  int deflate_;
  h5::Handle dataset_;
  std::vector<T> buffer_;
  std::int64_t written_ = 0;
};

struct MatrixColumns {
  GrowingColumn<std::int64_t> offsets;
  GrowingColumn<std::int32_t> columns;
  GrowingColumn<float> weights;
  std::int64_t entries = 0;
  bool linked = false;  ///< alias of another matrix
};

}  // namespace

struct DatasetWriter::File {
  explicit File(const std::string& path) : writer(path) {}

  Hdf5Writer writer;
  std::vector<MatrixColumns> matrices;  // in the order of matrix_names
  Attributes attributes{{"format_version", dataset_format}};
};

DatasetWriter::DatasetWriter(const std::string& path, std::int64_t compression)
    : file_(std::make_unique<File>(path)) {
  const int deflate = static_cast<int>(compression);
  if (deflate > 0 && !h5::can_deflate()) {  // the library would store the values without compression
    throw InputError(format(
        "{}: this program's HDF5 was built without zlib, so it cannot compress; set the compression to 0, or build the program with another HDF5",
        path));
  }
  const std::int64_t first = 0;
  for (const auto matrix : matrix_names) {
    const std::string name(matrix);
    file_->matrices.push_back({{name + "/indptr", deflate},
                               {name + "/indices", deflate},
                               {name + "/interaction_weights", deflate}});
    file_->matrices.back().offsets.append(file_->writer, {&first, 1});
  }
}
DatasetWriter::~DatasetWriter() = default;

void DatasetWriter::append_row(const std::string& matrix, const SparseRow& row) {
  MatrixColumns& target = file_->matrices[matrix_index(matrix)];
  target.columns.append(file_->writer, row.columns);
  target.weights.append(file_->writer, row.values);
  target.entries += static_cast<std::int64_t>(row.columns.size());
  target.offsets.append(file_->writer, {&target.entries, 1});
}

void DatasetWriter::write_ids(const std::string& path, const IdList& ids) {
  file_->writer.write_ids(path, ids);
}

void DatasetWriter::link(const std::string& path, const std::string& target) {
  const auto matrix = std::ranges::find(matrix_names, path);
  if (matrix != matrix_names.end()) file_->matrices[matrix_index(path)].linked = true;
  file_->writer.link(path, "/" + target);
}

void DatasetWriter::set_attribute(const std::string& name, const Attribute& value) {
  file_->attributes[name] = value;
}

void DatasetWriter::commit() {
  Hdf5Writer& writer = file_->writer;
  const auto has_columns = [&](std::size_t m) {
    const auto width = file_->attributes.find(width_attribute(m));
    return width != file_->attributes.end() && width->second != Attribute(std::int64_t{0});
  };
  for (std::size_t m = 0; m < matrix_names.size(); ++m) {
    MatrixColumns& matrix = file_->matrices[m];
    if (matrix.linked || (m >= first_features && !has_columns(m))) continue;
    matrix.offsets.finish(writer);
    matrix.columns.finish(writer);
    if (file_->attributes.contains("interaction_weights") && may_have_weights(matrix_names[m]))
      matrix.weights.finish(writer);
  }
  writer.write_attributes(file_->attributes);
  for (MatrixColumns& matrix : file_->matrices) {
    matrix.offsets.close();
    matrix.columns.close();
    matrix.weights.close();
  }
  writer.commit();
}

}  // namespace vaecf::io
