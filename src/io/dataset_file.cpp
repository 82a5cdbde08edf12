#include <vaecf/io/dataset_file.hpp>

#include "io/hdf5_reader.hpp"
#include "io/hdf5_values.hpp"
#include "io/stored_matrix.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

namespace vaecf::io {
namespace {

const char* const how_to_get_one = "make a dataset with `vaecf_dist prepare` or `vaecf_dist synthesize`";
constexpr std::int64_t format_version = 1;

/// The number of columns that the attribute `name` tells; nothing where it is not there.
std::optional<std::int64_t> read_width(const Hdf5Reader& file, const Attributes& attributes,
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

std::int64_t read_items(const Hdf5Reader& file, const Attributes& attributes) {
  const auto items = read_width(file, attributes, "items", 1);
  if (!items) file.refuse(format("has no attribute `items` (the number of items); {}", how_to_get_one));
  return *items;
}

void check_version(const Hdf5Reader& file, const Attributes& attributes) {
  const auto found = attributes.find("format_version");
  if (found == attributes.end()) return;
  const auto* version = std::get_if<std::int64_t>(&found->second);
  if (version == nullptr || *version != format_version) {
    file.refuse(format("its format_version is not {}, the one that this program reads; {}", format_version,
                       how_to_get_one));
  }
}

/// Reads items of all users and all ids, and hands them to `add`. If a matrix has more than `most_entries`
/// entries, only every n-th block of its rows is read.
void add_contents(const DatasetFile& file, const std::function<void(std::span<const std::byte>)>& add,
                  std::int64_t most_entries) {
  constexpr std::int64_t block_rows = 1 << 10;
  constexpr std::int64_t block_ids = 1 << 16;
  for (const auto name : matrix_names) {
    const std::string matrix(name);
    const std::int64_t rows = file.rows(matrix);
    const std::int64_t every = 1 + file.entries(matrix) / most_entries;
    for (std::int64_t begin = 0; begin < rows; begin += every * block_rows) {
      const Csr block = file.read_rows(matrix, {begin, std::min(rows, begin + block_rows)});
      add(std::as_bytes(std::span(block.columns)));
    }
  }
  const std::array<std::pair<const char*, std::int64_t>, 4> ids{
      {{"items/id", file.items()},
       {"train/user_id", file.rows("train")},
       {"validation/user_id", file.rows("validation/fold_in")},
       {"test/user_id", file.rows("test/fold_in")}}};
  for (const auto& [path, count] : ids) {
    if (!file.has_ids(path)) continue;
    for (std::int64_t begin = 0; begin < count; begin += block_ids) {
      const IdList block = file.read_ids(path, {begin, std::min(count, begin + block_ids)});
      add(std::as_bytes(std::span(block.numbers)));
      for (const std::string& id : block.strings) add(std::as_bytes(std::span(id)));
    }
  }
}

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

/// Returns whether `path` names an intact dataset that `prepare` or `synthesize` wrote. Reads all of it.
bool is_own_dataset(const std::string& path) {
  try {
    const DatasetFile file(path);
    for (const char* const attribute : {"format_version", "name", "users", "interactions", "source"}) {
      if (!file.attributes().contains(attribute)) return false;
    }
    add_contents(
        file, [](std::span<const std::byte>) {}, std::numeric_limits<std::int64_t>::max());
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

bool check_replaceable(const std::string& path, bool replace) {
  const bool intact = is_own_dataset(path);
  std::error_code error;
  if (!intact && !replace && std::filesystem::is_regular_file(path, error)) {
    throw InputError(
        format("{}: exists and is not an intact dataset of prepare or synthesize; name another file, or pass "
               "--replace to replace it",
               path));
  }
  return intact;
}

std::int64_t IdList::size() const {
  return static_cast<std::int64_t>(numeric() ? numbers.size() : strings.size());
}

IdList IdList::only(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  return numeric() ? IdList{{numbers.at(i)}, {}} : IdList{{}, {strings.at(i)}};
}

std::string IdList::text(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  return numeric() ? std::to_string(numbers.at(i)) : strings.at(i);
}

struct DatasetFile::Content {
  explicit Content(const std::string& path) : file(path, how_to_get_one) {
    if (is_checkpoint(file.path())) file.refuse(format("is a checkpoint, not a dataset; {}", how_to_get_one));
    h5::reading(file.path(), [&] {
      if (file.has("item") && file.has("score"))
        file.refuse(format("holds recommendations, not a dataset; {}", how_to_get_one));
      attributes = read_attributes(file.id(), file.path());
      check_version(file, attributes);
      if (attributes.contains("parts")) {
        file.refuse(
            "is one of the several files of a dataset, which only older versions read; run `vaecf_dist "
            "prepare` again");
      }
      items = read_items(file, attributes);
      for (const auto name : matrix_names) matrices.push_back(open_matrix(file, std::string(name)));
      if (!matrices[0]) file.refuse(format("has no group /train; {}", how_to_get_one));
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
    const std::size_t index = matrix_index(name);
    return matrices[index] ? matrices[index]->rows() : 0;
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

  /// As many columns as a matrix may have.
  std::int64_t width(std::size_t matrix) const { return matrix < first_features ? items : features; }

  Hdf5Reader file;
  Attributes attributes;
  std::int64_t items = 0;
  std::int64_t features = 0;
  Matrices matrices;
  std::once_flag printed;
  std::string print;  // the fingerprint, which takes reading
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
  const std::size_t index = matrix_index(matrix);
  const auto& found = content_->matrices[index];
  return found ? found->entries() : 0;
}

Csr DatasetFile::read_rows(const std::string& matrix, Range rows) const {
  const std::size_t index = matrix_index(matrix);
  if (rows.begin < 0 || rows.begin > rows.end || rows.end > this->rows(matrix)) {
    throw InputError(format("{}: rows {} to {} asked of {}, which has {}", path(), rows.begin, rows.end,
                            matrix, this->rows(matrix)));
  }
  if (rows.size() == 0) return {};
  return h5::reading(path(), [&] {
    return io::read_rows(content_->file, *content_->matrices[index], rows, content_->width(index));
  });
}

std::int64_t DatasetFile::compression() const {
  return h5::reading(path(), [&] { return deflate_level(content_->matrices[0]->columns); });
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
  std::call_once(content_->printed, [&] { content_->print = take_print(); });
  return content_->print;
}

std::string DatasetFile::take_print() const {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  const auto add_size = [&](std::uint64_t size) { XXH3_64bits_update(state.get(), &size, sizeof size); };
  const auto add = [&](std::span<const std::byte> bytes) {
    add_size(bytes.size());
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  };
  const auto add_text = [&](std::string_view text) { add(std::as_bytes(std::span(text))); };
  h5::reading(path(), [&] {
    for (std::size_t m = 0; m < matrix_names.size(); ++m) {
      const auto& matrix = content_->matrices[m];
      if (!matrix && m >= first_features) continue;  // as it was before there were any
      add_text(matrix_names[m]);
      if (!matrix) continue;
      add_size(static_cast<std::uint64_t>(matrix->rows() + 1) * sizeof(std::int64_t));
      for_each_offset_piece(content_->file, *matrix, [&](std::span<const std::int64_t> piece) {
        XXH3_64bits_update(state.get(), piece.data(), piece.size_bytes());
      });
    }
  });
  for (const auto& [name, value] : attributes()) {
    add_text(name);
    add_text(text_of(value));
  }
  // What `prepare` and `synthesize` made, follows from its attributes: source, with checksums, and options.
  constexpr std::int64_t sampled_entries = 1 << 26;  // 256 MB, as each rank reads them
  if (!attributes().contains("source")) add_contents(*this, add, sampled_entries);
  return format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace vaecf::io
