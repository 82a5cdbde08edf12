#include <vaecf/base/text.hpp>
#include <vaecf/base/version.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/file_lock.hpp>
#include <vaecf/io/hash.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <type_traits>

#include "io/dataset/stored_matrix.hpp"
#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {

namespace {

const char* const how_to_get_a_dataset =
    "create a dataset with `vaecf_dist prepare` or `vaecf_dist synthesize`";
constexpr std::array id_paths = {"items/id", "train/user_id", "validation/user_id", "test/user_id"};

/// Element i is the index of the matrix that has the same users as matrix_names[first_features + i].
constexpr std::array<std::size_t, 3> users_of_features = {0, 1, 3};

/// Passes the items of all users, their weights and all ids to `add`. If a matrix has more than `max_entries`
/// entries, only every n-th block of its rows is read.
void add_contents(const DatasetFile& file, const std::function<void(std::span<const std::byte>)>& add,
                  std::int64_t max_entries) {
  constexpr std::int64_t block_rows = 1 << 10;
  constexpr std::int64_t block_ids = 1 << 16;
  for (const auto name : matrix_names) {
    const std::string matrix(name);
    const std::int64_t rows = file.rows(matrix);
    const std::int64_t every = 1 + file.entries(matrix) / max_entries;
    for (std::int64_t begin = 0; begin < rows; begin += every * block_rows) {
      const Csr block = file.read_rows(matrix, {begin, std::min(rows, begin + block_rows)});
      add(std::as_bytes(std::span(block.columns)));
      if (!block.values.empty()) add(std::as_bytes(std::span(block.values)));
    }
  }
  for (const char* const path : id_paths) {
    if (!file.has_ids(path)) continue;
    const IdList ids = file.read_ids(path);
    for (std::int64_t begin = 0; begin < ids.size(); begin += block_ids) {
      const Range block{begin, std::min(ids.size(), begin + block_ids)};
      add(std::as_bytes(ids.numeric() ? view(ids.numbers, block) : std::span<const std::int64_t>()));
      if (ids.numeric()) continue;
      for (const std::string& id : view(ids.strings, block)) add(std::as_bytes(std::span(id)));
    }
  }
}

std::string text_of(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<double>>) {
          std::string text;
          for (const double number : value) text += format("{} ", number);
          return text;
        } else {
          return format("{}", value);
        }
      },
      attribute);
}

/// Returns why `path` is not an intact dataset that `prepare` or `synthesize` wrote; empty if it is one.
/// Reads all of it.
std::string why_not_own_dataset(const std::string& path) {
  try {
    const DatasetFile file(path);
    for (const char* const attribute : {"format_version", "name", "users", "interactions", "source"}) {
      if (!file.attributes().contains(attribute)) return format("{}: has no attribute `{}`", path, attribute);
    }
    add_contents(
        file, [](std::span<const std::byte>) {}, std::numeric_limits<std::int64_t>::max());
    return {};
  } catch (const FileInUseError&) {
    throw;
  } catch (const InputError& error) {
    return error.what();
  }
}

/// Throws InputError if the ids at `path` repeat.
template <class Id>
void require_unique(const std::vector<Id>& ids, const std::string& file, const char* path) {
  std::vector<std::size_t> rows(ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, {}, [&](std::size_t row) -> const Id& { return ids[row]; });
  const auto same =
      std::ranges::adjacent_find(rows, {}, [&](std::size_t row) -> const Id& { return ids[row]; });
  if (same == rows.end()) return;
  throw InputError(format(
      "{}: rows {} and {} of /{} are both '{}', but ids must be unique; correct them, or remove /{}, so that rows are numbered",
      file, *same, *std::next(same), path, excerpt(format("{}", ids[*same])), path));
}

}  // namespace

bool check_replaceable(const std::string& path, bool replace) {
  const std::string reason = why_not_own_dataset(path);
  std::error_code error;
  if (!reason.empty() && !replace && std::filesystem::is_regular_file(path, error)) {
    throw_if_in_use(path);
    throw InputError(format(
        "{}: exists and is not an intact dataset that prepare or synthesize wrote; choose another file, or pass --replace to overwrite it ({})",
        path, reason));
  }
  return reason.empty();
}

struct DatasetFile::Content {
  explicit Content(const std::string& path) : file(path, how_to_get_a_dataset) {
    if (is_checkpoint(path)) file.refuse(format("is a checkpoint, not a dataset; {}", how_to_get_a_dataset));
    file.as_input_error([&] {
      if (file.has("item_index") && file.has("score"))
        file.refuse(format("contains recommendations, not a dataset; {}", how_to_get_a_dataset));
      if (file.has("target_popularity"))
        file.refuse(format("contains metrics of test users, not a dataset; {}", how_to_get_a_dataset));
      attributes = file.attributes();
      const std::int64_t format_version = width_at("format_version", 0).value_or(dataset_format);
      if (format_version != dataset_format) {
        file.refuse(format("its format_version is {}, but {} reads {} only; prepare it again", format_version,
                           written_by(), dataset_format));
      }
      file.require_known(attributes);
      const auto found_items = width_at("items", 1);
      if (!found_items)
        file.refuse(format("has no attribute `items` (the number of items); {}", how_to_get_a_dataset));
      items = *found_items;
      features = width_at("user_features", 0).value_or(0);
      item_features = width_at("item_features", 0).value_or(0);
      new_items = width_at("new_items", 0).value_or(0);
      if (new_items >= items) file.refuse("attribute `new_items` must be below attribute `items`");
      for (const auto name : matrix_names) {
        auto& matrix = matrices.emplace_back();
        if (file.has(std::string(name))) matrix.emplace(file, std::string(name));
      }
      if (!matrices[0]) file.refuse(format("has no HDF5 group /train; {}", how_to_get_a_dataset));
      check_users();
      check_weights();
    });
  }

  /// Returns the attribute `name`, an integer of at least `min_value`, or nullopt if it is absent.
  std::optional<std::int64_t> width_at(const std::string& name, std::int64_t min_value) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return std::nullopt;
    constexpr std::int64_t max_value = std::numeric_limits<std::int32_t>::max();
    const auto* width = std::get_if<std::int64_t>(&found->second);
    if (width == nullptr || *width < min_value || *width > max_value) {
      file.refuse(format("attribute `{}` must be an integer from {} to {}", name, min_value, max_value));
    }
    return *width;
  }

  std::int64_t rows(std::string_view name) const {
    const auto& matrix = matrices[matrix_index(name)];
    return matrix ? matrix->rows() : 0;
  }

  /// Throws InputError if matrices or ids of the same users, or ids of the items, differ in size.
  void check_users() const {
    for (const std::string split : {"validation", "test"}) {
      require_same_users(split + "/fold_in", split + "/held_out");
      check_ids(split + "/user_id", rows(split + "/fold_in"));
    }
    check_ids("train/user_id", rows("train"));
    check_ids("items/id", items);
    for (std::size_t m = first_features; m < matrices.size(); ++m) {
      const std::string_view name = matrix_names[m];
      if (width(m) == 0) {
        if (matrices[m] && matrices[m]->entries() > 0)
          file.refuse(
              format("has {}, but no attribute `{}` (the number of its columns)", name, width_attribute(m)));
      } else if (m != features_of_items) {
        require_same_users(name, matrix_names[users_of_features[m - first_features]]);
      } else if (rows(name) != items) {
        file.refuse(format("{} must have a row for each of the {} items, got {}", name, items, rows(name)));
      }
    }
  }

  /// Throws InputError if some of the matrices that may have weights have none, unless they are empty.
  void check_weights() const {
    for (std::size_t m = 0; m < first_features; ++m) {
      if (!matrices[m] || !may_have_weights(matrix_names[m]) || matrices[m]->weighted() == weighted())
        continue;
      if (matrices[m]->entries() > 0 && matrices[0]->entries() > 0) {
        const auto& [with, without] = weighted() ? std::pair(matrix_names[0], matrix_names[m])
                                                 : std::pair(matrix_names[m], matrix_names[0]);
        file.refuse(
            format("/{} has weights, but /{} has none: train and both fold_in need them, or none of them",
                   with, without));
      }
    }
  }
  bool weighted() const { return matrices[0]->weighted(); }

  /// Returns the number of columns that rows of the matrix may have. New items have no train event.
  std::int64_t width(std::size_t matrix) const {
    if (matrix >= first_features) return matrix == features_of_items ? item_features : features;
    return matrix == 0 ? items - new_items : items;
  }

  void require_same_users(std::string_view one, std::string_view other) const {
    if (rows(one) == rows(other)) return;
    file.refuse(format("{} has {} rows, {} has {}; both must have the same users", one, rows(one), other,
                       rows(other)));
  }

  void check_ids(const std::string& name, std::int64_t expected) const {
    if (!file.has(name)) return;
    const auto found = file.open(name, 1).shape[0];
    if (found != expected) file.refuse(format("{} must have {} entries, got {}", name, expected, found));
  }

  Hdf5Reader file;
  Attributes attributes;
  std::int64_t items = 0;
  std::int64_t features = 0;
  std::int64_t item_features = 0;
  std::int64_t new_items = 0;
  mutable std::once_flag identified;
  mutable std::string fingerprint;
  std::vector<std::optional<StoredMatrix>> matrices;  // in the order of matrix_names
};

DatasetFile::DatasetFile(const std::string& path) : content_(std::make_shared<Content>(path)) {}

const std::string& DatasetFile::path() const {
  return content_->file.path();
}
std::int64_t DatasetFile::items() const {
  return content_->items;
}
std::int64_t DatasetFile::features() const {
  return content_->features;
}
std::int64_t DatasetFile::item_features() const {
  return content_->item_features;
}
std::int64_t DatasetFile::new_items() const {
  return content_->new_items;
}
bool DatasetFile::weighted() const {
  return content_->weighted();
}
std::int64_t DatasetFile::rows(const std::string& matrix) const {
  return content_->rows(matrix);
}
std::int64_t DatasetFile::entries(const std::string& matrix) const {
  const auto& found = content_->matrices[matrix_index(matrix)];
  return found ? found->entries() : 0;
}
std::int64_t DatasetFile::compression() const {
  return content_->matrices[0]->deflate();
}
const Attributes& DatasetFile::attributes() const {
  return content_->attributes;
}

Csr DatasetFile::read_rows(const std::string& matrix, Range rows) const {
  const std::size_t index = matrix_index(matrix);
  if (rows.begin < 0 || rows.begin > rows.end || rows.end > this->rows(matrix)) {
    throw InputError(format("{}: rows {} to {} of {} were requested, but it has {}", path(), rows.begin,
                            rows.end, matrix, this->rows(matrix)));
  }
  if (rows.size() == 0) return {};
  return content_->file.as_input_error(
      [&] { return content_->matrices[index]->read(rows, content_->width(index)); });
}

bool DatasetFile::has_ids(const std::string& path) const {
  return content_->file.as_input_error([&] { return content_->file.has(path); });
}

IdList DatasetFile::read_ids(const std::string& path) const {
  return content_->file.as_input_error([&] { return content_->file.ids(path); });
}

void DatasetFile::require_unique_ids() const {
  if (attributes().contains("source")) return;  // by `prepare` or `synthesize`
  for (const char* const path : id_paths) {
    if (!has_ids(path)) continue;
    const IdList ids = read_ids(path);
    require_unique(ids.numbers, this->path(), path);
    require_unique(ids.strings, this->path(), path);
  }
}

IdList ids_or_numbers(const DatasetFile& file, const std::string& path, std::int64_t count) {
  return file.has_ids(path) ? file.read_ids(path) : numbers_from(0, count);
}

IdList make_ids(std::vector<std::string> ids) {
  IdList list;
  for (const std::string& id : ids) {
    std::int64_t number = 0;
    if (!parse_integer_id(id, number)) return {{}, std::move(ids)};
    list.numbers.push_back(number);
  }
  return list;
}

IdList numbers_from(std::int64_t first, std::int64_t count) {
  IdList ids;
  ids.numbers.resize(static_cast<std::size_t>(count));
  std::iota(ids.numbers.begin(), ids.numbers.end(), first);
  return ids;
}

std::string DatasetFile::fingerprint() const {
  std::call_once(content_->identified, [&] { content_->fingerprint = compute_fingerprint(); });
  return content_->fingerprint;
}

void DatasetFile::set_fingerprint(const std::string& fingerprint) {
  std::call_once(content_->identified, [&] { content_->fingerprint = fingerprint; });
}

std::string DatasetFile::compute_fingerprint() const {
  Xxh3 hash;
  const auto add = [&](std::span<const std::byte> bytes) {
    const std::uint64_t size = bytes.size();
    hash.update(std::as_bytes(std::span(&size, 1)));
    hash.update(bytes);
  };
  const auto add_text = [&](std::string_view text) { add(std::as_bytes(std::span(text))); };
  for (std::size_t m = 0; m < matrix_names.size(); ++m) {
    const auto& matrix = content_->matrices[m];
    // Absent feature matrices do not change the fingerprint of older files.
    if (!matrix && m >= first_features) continue;
    add_text(matrix_names[m]);
    if (!matrix) continue;
    const auto offsets = content_->file.as_input_error([&] { return matrix->offsets({0, matrix->rows()}); });
    add(std::as_bytes(std::span(offsets)));
  }
  for (const auto& [name, value] : attributes()) {
    if (name == "written_by" || name == "requires") continue;
    add_text(name);
    add_text(text_of(value));
  }
  // The content of files made by `prepare` and `synthesize` is determined by their attributes: options and
  // checksums of the source.
  constexpr std::int64_t sampled_entries = 1 << 26;  // 256 MB, since a rank of every host reads them
  if (!attributes().contains("source")) add_contents(*this, add, sampled_entries);
  return format("{:016x}", hash.hash64());
}

}  // namespace vaecf::io
