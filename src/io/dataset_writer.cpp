#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/dataset_paths.hpp>

#include "io/attributes.hpp"
#include "io/dataset_parts.hpp"
#include "io/fingerprint.hpp"
#include "io/growing_column.hpp"
#include "io/ids.hpp"
#include "io/matrices.hpp"
#include "io/staged_hdf5.hpp"
#include "io/stored_matrix.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>

namespace vaecf::io {
namespace {

struct MatrixColumns {
  MatrixColumns(const std::string& name, int deflate)
      : offsets(name + "/indptr", deflate), columns(name + "/indices", deflate) {}

  void finish(hid_t file) {
    if (finished) return;
    offsets.finish(file);
    columns.finish(file);
    finished = true;
  }

  GrowingColumn<std::int64_t> offsets;
  GrowingColumn<std::int32_t> columns;
  std::int64_t rows = 0;
  std::int64_t entries = 0;
  bool finished = false;
};

/// One of the files that a dataset lies in.
struct PartFile {
  PartFile(const std::string& path, int deflate) : staged(path, 0) {
    const std::int64_t first = 0;
    for (const auto name : matrix_names) {
      matrices.emplace_back(std::string(name), deflate).offsets.append(staged.id(), {&first, 1});
    }
  }

  void append_row(std::size_t matrix, std::span<const std::int32_t> row) {
    MatrixColumns& target = matrices[matrix];
    staged.write([&] {
      target.columns.append(staged.id(), row);
      target.entries += static_cast<std::int64_t>(row.size());
      target.offsets.append(staged.id(), {&target.entries, 1});
    });
    ++target.rows;
  }

  StagedHdf5 staged;
  std::vector<MatrixColumns> matrices;
};

/// What all files together hold of a matrix.
struct MatrixState {
  std::size_t same_as = matrix_names.size();  ///< the matrix that it is a link to
  std::int64_t rows = 0;
  std::int32_t largest = -1;
  bool linked() const { return same_as < matrix_names.size(); }
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
  File(const std::string& asked_for, const DatasetLayout& layout)
      : path(asked_for), states(matrix_names.size()) {
    for (const std::string& file : new_dataset_paths(path, layout.files)) {
      parts.push_back(std::make_unique<PartFile>(file, static_cast<int>(layout.compression)));
    }
    attributes["format_version"] = std::int64_t{1};
  }

  StagedHdf5& first() { return parts.front()->staged; }
  bool spread(std::size_t matrix) const {
    return parts.size() > 1 && (matrix == train_matrix || matrix == first_features);
  }
  /// The first row of /train in a file.
  std::int64_t first_row(std::size_t part) const {
    return static_cast<std::int64_t>(part) * train_rows / static_cast<std::int64_t>(parts.size());
  }
  /// The file that the next row of a matrix goes to.
  PartFile& next_part(std::size_t matrix) {
    if (!spread(matrix)) return *parts.front();
    if (states[matrix].rows >= train_rows) {
      throw RunError(format("{}: more than the {} train users that were announced", path, train_rows));
    }
    std::size_t part = current[matrix == train_matrix ? 0 : 1];
    while (states[matrix].rows >= first_row(part + 1)) {
      PartFile& full = *parts[part++];
      full.staged.write([&] { full.matrices[matrix].finish(full.staged.id()); });
    }
    current[matrix == train_matrix ? 0 : 1] = part;
    return *parts[part];
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
      throw RunError(format("{}: the number of items was not set before the commit", path));
    }
    for (std::size_t m = 0; m < states.size(); ++m) {
      const char* const what = m < first_features ? "items" : "features";
      if (states[m].largest >= width(what)) {
        throw RunError(format("{}: {} holds column {}, but there are {} {}", path, matrix_names[m],
                              states[m].largest, width(what), what));
      }
    }
    for (std::size_t i = 0; with_features() && i < users_of_features.size(); ++i) {
      const MatrixState& known = states[first_features + i];
      const MatrixState& users = states[users_of_features[i]];
      if (!known.linked() && !users.linked() && known.rows != users.rows) {
        throw RunError(format("{}: {} users have features, but {} are in {}", path, known.rows, users.rows,
                              matrix_names[users_of_features[i]]));
      }
    }
  }

  void finish_matrices() {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      PartFile& part = *parts[p];
      part.staged.write([&] {
        for (std::size_t m = 0; m < matrix_names.size(); ++m) {
          const bool absent = states[m].linked() || (m >= first_features && !with_features());
          if (!absent && (p == 0 || spread(m))) part.matrices[m].finish(part.staged.id());
        }
      });
    }
  }

  /// The checksum that the reader would compute if all lay in one file.
  std::string checksum() {
    const auto stored = [&](std::size_t m) { return states[m].linked() ? states[m].same_as : m; };
    const auto rows = [&](std::size_t m) {
      return m >= first_features && !with_features() ? -1 : states[stored(m)].rows;
    };
    const auto for_each_piece = [&](std::size_t m, const OffsetSource::Use& use) {
      std::int64_t before = 0;
      std::vector<std::int64_t> moved;
      for (std::size_t p = 0; p < (spread(stored(m)) ? parts.size() : 1); ++p) {
        const MatrixColumns& matrix = parts[p]->matrices[stored(m)];
        bool seam = p > 0;  // its first offset is the last of the file before
        io::for_each_piece(matrix.offsets.id(), matrix.offsets.size(),
                           [&](std::span<const std::int64_t> piece) {
                             moved.assign(piece.begin() + (seam ? 1 : 0), piece.end());
                             for (std::int64_t& offset : moved) offset += before;
                             seam = false;
                             use(moved);
                           });
        before += matrix.entries;
      }
    };
    std::string text;
    first().write([&] { text = fingerprint_of(attributes, {rows, for_each_piece}); });
    return text;
  }

  void write_table(const char* table_path, std::size_t matrix, bool of_rows) {
    std::vector<std::int64_t> table{0};
    for (const auto& part : parts) {
      const MatrixColumns& columns = part->matrices[matrix];
      table.push_back(table.back() + (of_rows ? columns.rows : columns.entries));
    }
    first().write([&] { write_id_list(first().id(), table_path, {table, {}}); });
  }

  /// What makes one dataset of several files.
  void tie_together() {
    if (states[train_matrix].rows != train_rows) {
      throw RunError(format("{}: {} train users were announced, and {} came", path, train_rows,
                            states[train_matrix].rows));
    }
    write_table(part_rows_path, train_matrix, true);
    write_table(part_entries_path, train_matrix, false);
    if (with_features()) write_table(part_feature_entries_path, first_features, false);
    const std::string whole = checksum();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      Attributes own = attributes;
      if (p > 0) {
        std::erase_if(own, [](const auto& attribute) {
          return attribute.first != "format_version" && attribute.first != "name" &&
                 attribute.first != "items" && attribute.first != "features";
        });
      }
      own[part_attribute] = static_cast<std::int64_t>(p);
      own[parts_attribute] = static_cast<std::int64_t>(parts.size());
      own[parts_of_attribute] = whole;
      parts[p]->staged.write([&] { write_attributes(parts[p]->staged.id(), own); });
    }
  }

  /// The first file last, so that the others are there when it is; then what they replace goes.
  void publish() {
    for (const auto& part : parts) {
      for (MatrixColumns& matrix : part->matrices) {
        matrix.offsets.close();
        matrix.columns.close();
      }
      part->staged.finish();
      part->staged.sync();
    }
    std::vector<std::string> now_there;  // behind links
    try {
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        (*part)->staged.publish();
        now_there.push_back((*part)->staged.path());
      }
    } catch (...) {
      std::error_code ignored;
      for (const std::string& file : now_there) std::filesystem::remove(file, ignored);
      throw;
    }
    std::error_code ignored;
    const auto names = new_dataset_paths(path, static_cast<std::int64_t>(parts.size()));
    for (const std::string& file : replaced_dataset_paths(path, names)) {
      std::filesystem::remove(file, ignored);
    }
  }

  std::string path;
  std::vector<std::unique_ptr<PartFile>> parts;
  std::vector<MatrixState> states;
  std::int64_t train_rows = 0;
  std::size_t current[2] = {0, 0};  // file of the next row of /train, of /train/features
  Attributes attributes;
};

DatasetWriter::DatasetWriter(const std::string& path, const DatasetLayout& layout)
    : file_(std::make_unique<File>(path, layout)) {}
DatasetWriter::~DatasetWriter() = default;
DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;
DatasetWriter& DatasetWriter::operator=(DatasetWriter&&) noexcept = default;

void DatasetWriter::set_train_rows(std::int64_t rows) {
  file_->train_rows = rows;
}

void DatasetWriter::append_row(const std::string& matrix, std::span<const std::int32_t> columns) {
  const std::size_t index = matrix_index(matrix);
  MatrixState& state = file_->states[index];
  const bool rising = std::ranges::adjacent_find(columns, std::greater_equal<>()) == columns.end();
  if (!rising || (!columns.empty() && columns.front() < 0)) {
    throw RunError(
        format("{}: row {} of {} does not have ascending, unique columns", file_->path, state.rows, matrix));
  }
  file_->next_part(index).append_row(index, columns);
  ++state.rows;
  if (!columns.empty()) state.largest = std::max(state.largest, columns.back());
}

void DatasetWriter::write_ids(const std::string& path, const IdList& ids) {
  file_->first().write([&] { write_id_list(file_->first().id(), path, ids); });
}

void DatasetWriter::link(const std::string& path, const std::string& target) {
  for (std::size_t m = 0; m < matrix_names.size(); ++m) {
    if (matrix_names[m] == path) file_->states[m].same_as = matrix_index(target);
  }
  file_->first().write([&] { h5::create_link(file_->first().id(), path, "/" + target); });
}

void DatasetWriter::set_attribute(const std::string& name, const Attribute& value) {
  file_->attributes[name] = value;
}

void DatasetWriter::commit() {
  file_->check_complete();
  file_->finish_matrices();
  if (file_->parts.size() > 1) {
    file_->tie_together();
  } else {
    file_->first().write([&] { write_attributes(file_->first().id(), file_->attributes); });
  }
  file_->publish();
}

}  // namespace vaecf::io
