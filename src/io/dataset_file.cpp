#include <vaecf/io/dataset_file.hpp>

#include "io/attributes.hpp"
#include "io/ids.hpp"
#include "io/input_file.hpp"
#include "io/matrices.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

namespace vaecf::io {
namespace {

const char* const how_to_make = "make a dataset with `vaecf_dist prepare` or `vaecf_dist synthesize`";
constexpr std::int64_t format_version = 1;

std::string text_of(const Attribute& attribute) {
  if (const auto* list = std::get_if<std::vector<double>>(&attribute)) {
    std::string text;
    for (const double number : *list) text += format("{} ", number);
    return text;
  }
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) return format("{}", *integer);
  if (const auto* number = std::get_if<double>(&attribute)) return format("{}", *number);
  return std::get<std::string>(attribute);
}

struct Matrix {
  InputDataset offsets;
  InputDataset columns;
  std::optional<InputDataset> weights;
  std::int64_t rows() const { return offsets.shape[0] - 1; }
  std::int64_t entries() const { return columns.shape[0]; }
};

void require_integers(const InputFile& file, const InputDataset& dataset) {
  if (dataset.kind() != H5T_INTEGER) file.refuse(format("{} does not hold integers", dataset.name));
}

std::int64_t offset_at(const Matrix& matrix, std::int64_t row) {
  std::int64_t value = 0;
  h5::read_elements<std::int64_t>(matrix.offsets.id.id(), row, {&value, 1});
  return value;
}

std::optional<Matrix> open_matrix(const InputFile& file, const std::string& name) {
  if (!file.has(name)) return std::nullopt;
  Matrix matrix{file.open(name + "/indptr", 1), file.open(name + "/indices", 1), std::nullopt};
  require_integers(file, matrix.offsets);
  require_integers(file, matrix.columns);
  if (matrix.offsets.shape[0] < 1) {
    file.refuse(
        format("{} is empty; it must start with 0 and have one entry more than rows", matrix.offsets.name));
  }
  if (const auto first = offset_at(matrix, 0); first != 0) {
    file.refuse(format("{} starts with {} instead of 0", matrix.offsets.name, first));
  }
  if (const auto last = offset_at(matrix, matrix.rows()); last != matrix.entries()) {
    file.refuse(format("{} ends with {}, but {} has {} entries", matrix.offsets.name, last,
                       matrix.columns.name, matrix.entries()));
  }
  if (file.has(name + "/data")) {
    matrix.weights = file.open(name + "/data", 1);
    if (matrix.weights->kind() != H5T_FLOAT && matrix.weights->kind() != H5T_INTEGER) {
      file.refuse(format("{} does not hold numbers", matrix.weights->name));
    }
    if (matrix.weights->shape != matrix.columns.shape) {
      file.refuse(format("{} has {} entries, but {} has {}", matrix.weights->name, matrix.weights->shape[0],
                         matrix.columns.name, matrix.entries()));
    }
  }
  return matrix;
}

/// The number of columns that the attribute `name` tells; nothing where it is not there.
std::optional<std::int64_t> read_width(const InputFile& file, const Attributes& attributes,
                                       const std::string& name, std::int64_t least) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  const auto* width = std::get_if<std::int64_t>(&found->second);
  if (width == nullptr || *width < least || *width > std::numeric_limits<std::int32_t>::max()) {
    file.refuse(format("attribute `{}` must be an integer from {} to {}", name, least,
                       std::numeric_limits<std::int32_t>::max()));
  }
  return *width;
}

std::int64_t read_items(const InputFile& file, const Attributes& attributes) {
  const auto items = read_width(file, attributes, "items", 1);
  if (!items) file.refuse(format("has no attribute `items` (the number of items); {}", how_to_make));
  return *items;
}

void check_version(const InputFile& file, const Attributes& attributes) {
  const auto found = attributes.find("format_version");
  if (found == attributes.end()) return;
  const auto* version = std::get_if<std::int64_t>(&found->second);
  if (version == nullptr || *version != format_version) {
    file.refuse(format("its format_version is not {}, the one that this program reads; {}", format_version,
                       how_to_make));
  }
}

void check_offsets(const InputFile& file, const Matrix& matrix, Range rows,
                   const std::vector<std::int64_t>& offsets) {
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    if (offsets[r] < 0 || offsets[r] > offsets[r + 1] || offsets[r + 1] > matrix.entries()) {
      file.refuse(format("{} row {}: offsets {} and {} do not rise within 0 to {}", matrix.offsets.name,
                         rows.begin + static_cast<std::int64_t>(r), offsets[r], offsets[r + 1],
                         matrix.entries()));
    }
  }
}

void check_columns(const InputFile& file, const Matrix& matrix, Range rows, const CsrView& csr,
                   std::int64_t width) {
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    std::int64_t previous = -1;
    for (const std::int64_t column : csr.row(r)) {
      if (column < 0 || column >= width) {
        file.refuse(format("{} row {}: column {} is outside 0 to {}", matrix.columns.name, rows.begin + r,
                           column, width - 1));
      }
      if (column <= previous) {
        file.refuse(format("{} row {}: column {} {}; columns must be ascending and unique",
                           matrix.columns.name, rows.begin + r, column,
                           column == previous ? "appears twice" : format("follows {}", previous)));
      }
      previous = column;
    }
  }
}

void check_weights(const InputFile& file, const InputDataset& weights, std::int64_t begin,
                   std::int64_t count) {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  std::vector<double> values;
  for (std::int64_t done = 0; done < count; done += piece) {
    values.resize(static_cast<std::size_t>(std::min(piece, count - done)));
    h5::read_elements<double>(weights.id.id(), begin + done, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t entry = begin + done + static_cast<std::int64_t>(i);
      if (!std::isfinite(values[i])) file.refuse(format("{} entry {} is not a number", weights.name, entry));
      if (values[i] != 1.0) {
        file.refuse(format("{} entry {} is {}: weights other than 1 are not supported yet; remove {}",
                           weights.name, entry, values[i], weights.name));
      }
    }
  }
}

}  // namespace

std::int64_t IdList::size() const {
  return static_cast<std::int64_t>(numeric() ? numbers.size() : strings.size());
}

std::string IdList::text(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  return numeric() ? std::to_string(numbers.at(i)) : strings.at(i);
}

struct DatasetFile::Content {
  explicit Content(const std::string& path) : file(path, how_to_make) {
    if (is_checkpoint(path)) file.refuse(format("is a checkpoint, not a dataset; {}", how_to_make));
    h5::reading(path, [&] {
      attributes = read_attributes(file.id(), path);
      check_version(file, attributes);
      items = read_items(file, attributes);
      for (const auto name : matrix_names) matrices.push_back(open_matrix(file, std::string(name)));
      if (!matrices[0]) file.refuse(format("has no group /train; {}", how_to_make));
      for (const std::string split : {"validation", "test"}) {
        const auto seen = rows(split + "/fold_in");
        const auto wanted = rows(split + "/held_out");
        if (seen != wanted) {
          file.refuse(format("{}/fold_in has {} rows, {}/held_out has {}; both must hold the same users",
                             split, seen, split, wanted));
        }
        check_ids(split + "/user_id", seen);
      }
      check_ids("train/user_id", rows("train"));
      check_ids("items/id", items);
      features = read_width(file, attributes, "features", 0).value_or(0);
      check_features();
    });
  }

  std::int64_t rows(const std::string& name) const {
    const auto& matrix = matrices[matrix_index(name)];
    return matrix ? matrix->rows() : 0;
  }

  void check_features() const {
    for (std::size_t i = 0; i < users_of_features.size(); ++i) {
      const std::string name(matrix_names[first_features + i]);
      const std::string users(matrix_names[users_of_features[i]]);
      const auto& matrix = matrices[first_features + i];
      if (features == 0 && matrix && matrix->entries() > 0) {
        file.refuse(format("has {}, but no attribute `features` (the number of its columns)", name));
      }
      if (features > 0 && rows(name) != rows(users)) {
        file.refuse(format("{} has {} rows, {} has {}; both must hold the same users", name, rows(name),
                           users, rows(users)));
      }
    }
  }

  void check_ids(const std::string& name, std::int64_t expected) const {
    if (!file.has(name)) return;
    const auto dataset = file.open(name, 1);
    if (dataset.shape[0] != expected) {
      file.refuse(format("{} has {} entries instead of {}", name, dataset.shape[0], expected));
    }
  }

  std::vector<std::int64_t> read_offsets(const Matrix& matrix, Range rows) const {
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows.size()) + 1);
    h5::read_elements<std::int64_t>(matrix.offsets.id.id(), rows.begin, offsets);
    check_offsets(file, matrix, rows, offsets);
    return offsets;
  }

  InputFile file;
  Attributes attributes;
  std::int64_t items = 0;
  std::int64_t features = 0;
  std::vector<std::optional<Matrix>> matrices;  // in the order of matrix_names
};

DatasetFile::DatasetFile(const std::string& path) : content_(std::make_unique<Content>(path)) {}
DatasetFile::~DatasetFile() = default;
DatasetFile::DatasetFile(DatasetFile&&) noexcept = default;
DatasetFile& DatasetFile::operator=(DatasetFile&&) noexcept = default;

const std::string& DatasetFile::path() const {
  return content_->file.path();
}
std::int64_t DatasetFile::items() const {
  return content_->items;
}
std::int64_t DatasetFile::features() const {
  return content_->features;
}
std::int64_t DatasetFile::rows(const std::string& matrix) const {
  return content_->rows(matrix);
}
const Attributes& DatasetFile::attributes() const {
  return content_->attributes;
}

std::int64_t DatasetFile::entries(const std::string& matrix) const {
  const auto& found = content_->matrices[matrix_index(matrix)];
  return found ? found->entries() : 0;
}

Csr DatasetFile::read_rows(const std::string& matrix, Range rows) const {
  const auto& found = content_->matrices[matrix_index(matrix)];
  if (rows.begin < 0 || rows.begin > rows.end || rows.end > this->rows(matrix)) {
    content_->file.refuse(
        format("rows {} to {} asked of {}, which has {}", rows.begin, rows.end, matrix, this->rows(matrix)));
  }
  Csr csr;
  if (rows.size() == 0) return csr;
  h5::reading(path(), [&] {
    csr.offsets = content_->read_offsets(*found, rows);
    const std::int64_t first = csr.offsets.front();
    const std::int64_t count = csr.offsets.back() - first;
    // Wider integers are narrowed by the library to the largest int32, which is out of range here.
    csr.columns.resize(static_cast<std::size_t>(count));
    h5::read_elements<std::int32_t>(found->columns.id.id(), first, csr.columns);
    const bool of_features = matrix_index(matrix) >= first_features;
    check_columns(content_->file, *found, rows, csr.view(), of_features ? features() : items());
    if (found->weights) check_weights(content_->file, *found->weights, first, count);
    for (auto& offset : csr.offsets) offset -= first;
  });
  return csr;
}

bool DatasetFile::has_ids(const std::string& path) const {
  return h5::reading(this->path(), [&] { return content_->file.has(path); });
}

IdList DatasetFile::read_ids(const std::string& path) const {
  return h5::reading(this->path(), [&] {
    const auto dataset = content_->file.open(path, 1);
    return read_id_list(content_->file, dataset, {0, dataset.shape[0]});
  });
}

IdList DatasetFile::read_ids(const std::string& path, Range rows) const {
  return h5::reading(this->path(),
                     [&] { return read_id_list(content_->file, content_->file.open(path, 1), rows); });
}

std::string DatasetFile::fingerprint() const {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  const auto add = [&](std::string_view bytes) {
    const std::uint64_t size = bytes.size();
    XXH3_64bits_update(state.get(), &size, sizeof size);
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  };
  h5::reading(path(), [&] {
    for (std::size_t m = 0; m < matrix_names.size(); ++m) {
      const auto& matrix = content_->matrices[m];
      if (!matrix && m >= first_features) continue;  // as it was before there were any
      add(matrix_names[m]);
      if (!matrix) continue;
      const auto offsets = content_->read_offsets(*matrix, {0, matrix->rows()});
      add({reinterpret_cast<const char*>(offsets.data()), offsets.size() * sizeof offsets[0]});
    }
  });
  for (const auto& [name, value] : attributes()) {
    add(name);
    add(text_of(value));
  }
  return format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace vaecf::io
