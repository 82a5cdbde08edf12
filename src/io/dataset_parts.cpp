#include "io/dataset_parts.hpp"

#include <algorithm>

#include "io/attributes.hpp"
#include "io/matrices.hpp"

namespace vaecf::io {
namespace {

const char* const how_to_make = "make the dataset again with `vaecf_dist prepare --replace`";
constexpr std::int64_t most_parts = 100000;
constexpr std::int64_t most_entries = std::int64_t{1} << 53;  // sums stay far from overflow

std::int64_t take_number(const InputFile& file, Attributes& attributes, const char* name,
                         std::int64_t otherwise) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return otherwise;
  const auto* number = std::get_if<std::int64_t>(&found->second);
  if (number == nullptr || *number < 0 || *number > most_parts) {
    file.refuse(format("attribute `{}` must be an integer from 0 to {}", name, most_parts));
  }
  const std::int64_t value = *number;
  attributes.erase(found);
  return value;
}

std::vector<std::int64_t> read_table(const InputFile& file, const std::string& path, std::int64_t parts,
                                     std::int64_t of_first) {
  const InputDataset dataset = file.open(path, 1);
  if (dataset.kind() != H5T_INTEGER || dataset.shape[0] != parts + 1) {
    file.refuse(format("{} must hold {} integers, one more than there are files", path, parts + 1));
  }
  std::vector<std::int64_t> table(static_cast<std::size_t>(parts) + 1);
  h5::read_elements<std::int64_t>(dataset.id.id(), 0, table);
  if (table.front() != 0 || !std::ranges::is_sorted(table) || table.back() > most_entries) {
    file.refuse(format("{} must start with 0 and rise, to 2^53 at most", path));
  }
  if (table[1] != of_first) {
    file.refuse(
        format("{} tells of {} in the first file, which has {}; {}", path, table[1], of_first, how_to_make));
  }
  return table;
}

std::string number_in_name(std::int64_t part, std::int64_t parts) {
  return format("-{:05}-of-{:05}", part, parts);
}

}  // namespace

DatasetParts::OpenPart::OpenPart(const std::string& path) : file(path, how_to_make) {}

PartOf take_part(const InputFile& file, Attributes& attributes) {
  PartOf part;
  part.count = take_number(file, attributes, parts_attribute, 1);
  part.number = take_number(file, attributes, part_attribute, 0);
  if (part.count < 1 || part.number >= part.count) {
    file.refuse(
        format("is part {} of {} of its dataset, which cannot be; {}", part.number, part.count, how_to_make));
  }
  const auto whole = attributes.find(parts_of_attribute);
  if (whole != attributes.end() && std::holds_alternative<std::string>(whole->second)) {
    part.whole = std::get<std::string>(whole->second);
    attributes.erase(whole);
  }
  if (part.count > 1 && part.whole.empty()) {
    file.refuse(format("is one of {} files, but has no attribute `{}` that tells of which dataset; {}",
                       part.count, parts_of_attribute, how_to_make));
  }
  return part;
}

DatasetParts::DatasetParts(std::vector<std::string> paths, const std::string& asked_for, PartOf part,
                           const InputFile& first, const Matrices& matrices)
    : paths_(std::move(paths)),
      part_(std::move(part)),
      first_(&first),
      matrices_(&matrices),
      spread_as_(matrix_names.size()),
      first_row_{0, matrices[train_matrix]->rows()},
      others_(paths_.size()) {
  check_number_of_files(asked_for);
  if (part_.count == 1) return;
  first_row_ = read_table(first, part_rows_path, part_.count, matrices[train_matrix]->rows());
  for (const std::size_t spread : {train_matrix, first_features}) {
    if (!matrices[spread]) continue;
    const char* const table = spread == train_matrix ? part_entries_path : part_feature_entries_path;
    first_entry_[spread] = read_table(first, table, part_.count, matrices[spread]->entries());
    // Of weak splits what the model sees of held-out users is a link to what it learned from.
    for (std::size_t m = 0; m < matrix_names.size(); ++m) {
      if (first.resolve(std::string(matrix_names[m])) == format("/{}", matrix_names[spread])) {
        spread_as_[m] = spread;
      }
    }
  }
}

void DatasetParts::check_number_of_files(const std::string& asked_for) const {
  const auto matched = static_cast<std::int64_t>(paths_.size());
  if (part_.count == 1 && matched > 1) {
    first_->refuse(format("is a dataset by itself, but {} stands for {} files: name the one that is meant",
                          asked_for, matched));
  }
  if (part_.count > 1 && matched == 1 && paths_.front() == asked_for) {
    first_->refuse(format("is part {} of a dataset in {} files: name all of them, such as NAME-*-of-{:05}.h5",
                          part_.number, part_.count, part_.count));
  }
  if (matched > part_.count) {
    first_->refuse(
        format("is one of {} files of its dataset, but {} stands for {} files: name those of one "
               "dataset only, such as NAME-*-of-{:05}.h5",
               part_.count, asked_for, matched, part_.count));
  }
  for (std::int64_t part = 0; matched < part_.count && part < part_.count; ++part) {
    const std::string number = number_in_name(part, part_.count);
    const auto has_it = [&](const std::string& path) { return path.find(number) != std::string::npos; };
    if (part + 1 < part_.count && std::ranges::any_of(paths_, has_it)) continue;
    first_->refuse(
        format("is one of {} files of its dataset, but {} stands for {} only: NAME{}.h5 is "
               "missing; copy it here, or {}",
               part_.count, asked_for, matched, number, how_to_make));
  }
  if (part_.number != 0) {
    first_->refuse(
        format("is part {} of its dataset, but comes first of {}: files are taken in order of "
               "their names; give them back the names that they had",
               part_.number, asked_for));
  }
}

std::int64_t DatasetParts::entries(std::size_t matrix) const {
  return first_entry_.at(*spread_as_[matrix]).back();
}

const DatasetParts::OpenPart& DatasetParts::opened(std::size_t part) const {
  const h5::LibraryLock lock;
  if (others_[part]) return *others_[part];
  auto other = std::make_unique<OpenPart>(paths_[part]);
  const InputFile& file = other->file;
  h5::reading(file.path(), [&] {
    Attributes attributes = read_attributes(file.id(), file.path());
    const PartOf found = take_part(file, attributes);
    if (found.count != part_.count || found.whole != part_.whole) {
      file.refuse(
          format("is of another dataset than {}: the files of a dataset are made together and belong "
                 "together; {}",
                 first_->path(), how_to_make));
    }
    if (found.number != static_cast<std::int64_t>(part)) {
      file.refuse(
          format("is part {} of its dataset, but stands in place {}: files are taken in order of "
                 "their names; give them back the names that they had",
                 found.number, part));
    }
    for (const auto& [matrix, first_entry] : first_entry_) {
      auto stored = open_matrix(file, std::string(matrix_names[matrix]));
      const std::int64_t rows = first_row_[part + 1] - first_row_[part];
      const std::int64_t entries = first_entry[part + 1] - first_entry[part];
      if (!stored || stored->rows() != rows || stored->entries() != entries) {
        file.refuse(format("/{} should have {} rows and {} entries, as {} says, and has {} and {}; {}",
                           matrix_names[matrix], rows, entries, first_->path(), stored ? stored->rows() : 0,
                           stored ? stored->entries() : 0, how_to_make));
      }
      other->matrices.emplace(matrix, std::move(*stored));
    }
  });
  others_[part] = std::move(other);
  return *others_[part];
}

void DatasetParts::append_rows(std::size_t matrix, Range rows, std::int64_t width, Csr& to) const {
  const std::size_t spread = *spread_as_[matrix];
  const std::vector<std::int64_t>& first_entry = first_entry_.at(spread);
  std::size_t begin = 0;
  while (first_row_[begin + 1] <= rows.begin) ++begin;
  std::size_t end = begin;
  while (end < paths_.size() && first_row_[end] < rows.end) ++end;
  const auto file_of = [&](std::size_t part) -> const InputFile& {
    return part == 0 ? *first_ : opened(part).file;
  };
  const auto matrix_of = [&](std::size_t part) -> const StoredMatrix& {
    return part == 0 ? *(*matrices_)[spread] : opened(part).matrices.at(spread);
  };
  for (std::size_t part = begin; part < end; ++part) file_of(part);  // the table's claims are checked
  if (end - begin > 1) {  // all at once, since to grow is to hold it twice
    h5::reading(file_of(begin).path(), [&] {
      const auto before = [&](std::size_t part,
                              std::int64_t row) {  // may be damaged: is checked when it is read
        return std::clamp<std::int64_t>(offset_at(matrix_of(part), row - first_row_[part]), 0, most_entries);
      };
      const std::int64_t first = before(begin, rows.begin);
      const std::int64_t last = before(end - 1, rows.end);
      to.offsets.reserve(static_cast<std::size_t>(rows.size()) + 1);
      to.columns.reserve(static_cast<std::size_t>(
          std::clamp<std::int64_t>(first_entry[end - 1] - first_entry[begin] + last - first, 0,
                                   first_entry[end] - first_entry[begin])));
    });
  }
  for (std::size_t part = begin; part < end; ++part) {
    const Range wanted{std::max(rows.begin, first_row_[part]) - first_row_[part],
                       std::min(rows.end, first_row_[part + 1]) - first_row_[part]};
    h5::reading(file_of(part).path(),
                [&] { io::append_rows(file_of(part), matrix_of(part), wanted, width, to); });
  }
}

void DatasetParts::open_all() const {
  for (std::size_t part = 1; part < paths_.size(); ++part) opened(part);
}

}  // namespace vaecf::io
