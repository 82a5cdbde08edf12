#include <vaecf/base/failure.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/descriptor.hpp>
#include <vaecf/io/hash.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>

#include "io/files/file_system.hpp"
#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the user block is written in host byte order");

constexpr const char* how_to_get_a_checkpoint = "choose a checkpoint written by a training run";
constexpr std::string_view magic = "VAECFCKP";
constexpr std::uint32_t checkpoint_format = 3;
constexpr const char* item_ids_path = "items/id";
constexpr const char* item_titles_path = "items/title";
constexpr const char* item_users_path = "items/users";
constexpr const char* user_hashes_path = "users/hash";
constexpr std::int64_t block_floats = std::int64_t{4} << 20;  // 16 MiB

/// User block before the HDF5 data of a checkpoint.
struct HeaderBlock {
  std::array<char, magic.size()> mark{};
  std::uint32_t format = 0;
  std::uint32_t zero = 0;
  std::uint64_t length = 0;  ///< bytes after the user block
  std::uint64_t hash = 0;    ///< xxh3 (64 bit) of these bytes
  std::array<char, 480> zeros{};

  bool operator==(const HeaderBlock&) const = default;
  bool has_mark() const { return std::string_view(mark.data(), mark.size()) == magic; }
};
static_assert(sizeof(HeaderBlock) == 512);

Descriptor open_file(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// Reads the user block. Returns the number of bytes read, or -1 with errno set.
ssize_t read_header(const Descriptor& file, HeaderBlock& header) {
  return file.is_open() ? read_at(file.value(), reinterpret_cast<char*>(&header), sizeof header, 0) : -1;
}

/// Stores in `header` the user block for all bytes after it. Returns false with errno set if reading fails.
bool measure(int descriptor, HeaderBlock& header) {
  Xxh3 hash;
  std::string piece(std::size_t{1} << 20, '\0');
  std::ranges::copy(magic, header.mark.begin());
  header.format = checkpoint_format;
  for (ssize_t got = 1; got > 0;) {
    got = read_at(descriptor, piece.data(), piece.size(), static_cast<off_t>(sizeof header + header.length));
    if (got < 0) return false;
    hash.update(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(got))));
    header.length += static_cast<std::uint64_t>(got);
  }
  header.hash = hash.hash64();
  return true;
}

/// Returns the checksum of the checkpoint `path`. Throws InputError if the file is not a checkpoint, is
/// truncated or does not match its checksum, and OtherFormatError if it has another format.
std::uint64_t verify_checksum(const std::string& path) {
  if (std::error_code error; std::filesystem::is_directory(path, error))
    throw InputError(format("{}: is a folder; {} is the best checkpoint of a run", path,
                            (std::filesystem::path(path) / "checkpoints/best.h5").string()));
  require_file(path, how_to_get_a_checkpoint);
  const auto fail = [&](const std::string& problem) { throw InputError(format("{}: {}", path, problem)); };
  const Descriptor file = open_file(path);
  HeaderBlock claimed;
  HeaderBlock found;
  const ssize_t got = read_header(file, claimed);
  if (got < 0) fail(format("cannot be read: {}", std::generic_category().message(errno)));
  if (!claimed.has_mark()) fail(format("is not a checkpoint of this program; {}", how_to_get_a_checkpoint));
  if (static_cast<std::size_t>(got) < sizeof claimed) fail("is truncated; use an older checkpoint");
  if (claimed.format != checkpoint_format) {
    throw OtherFormatError(format(
        "{}: is a checkpoint of format {}, but this version reads format {} only; train again, or use the version that wrote it",
        path, claimed.format, checkpoint_format));
  }
  if (!measure(file.value(), found)) {
    fail(format("cannot be read: {}", std::generic_category().message(errno)));
  }
  if (found.length != claimed.length) {
    fail(format("contains {} bytes after its first 512, but {} were written; use an older checkpoint",
                found.length, claimed.length));
  }
  if (found != claimed) fail("is damaged: its checksum does not match its contents; use an older checkpoint");
  return found.hash;
}

/// Writes a tensor to the file in blocks of rows. Rethrows exceptions of `source`.
void write_tensor(Hdf5Writer& file, const TensorSource& source) {
  const std::array<hsize_t, 2> matrix = {static_cast<hsize_t>(source.rows),
                                         static_cast<hsize_t>(source.columns)};
  const h5::Handle dataset =
      file.create(source.name, H5T_NATIVE_FLOAT, std::span(matrix).subspan(source.vector ? 1 : 0));
  // At least 8 rows, because tables of items are stored by columns.
  const std::int64_t step =
      std::max<std::int64_t>(8, block_floats / std::max<std::int64_t>(1, source.columns));
  std::vector<float> block(static_cast<std::size_t>(std::min(step, source.rows) * source.columns));
  for (std::int64_t begin = 0; begin < source.rows; begin += step) {
    const std::int64_t end = std::min(source.rows, begin + step);
    const auto values = std::span(block).first(static_cast<std::size_t>((end - begin) * source.columns));
    source.read_rows(begin, end, values);
    const std::int64_t count = source.vector ? source.columns : end - begin;
    file.write([&] { h5::write_rows(dataset.id(), H5T_NATIVE_FLOAT, begin, count, values.data()); });
  }
}

void write_summary(Hdf5Writer& file, const DatasetSummary& dataset) {
  file.write_ids(item_ids_path, dataset.item_ids);
  if (dataset.item_titles.size() > 0) file.write_ids(item_titles_path, dataset.item_titles);
  file.write_array(item_users_path, std::span(dataset.item_users));
  if (!dataset.user_hashes.empty()) file.write_array(user_hashes_path, std::span(dataset.user_hashes));
}

bool is_of_summary(const std::string& name) {
  return name.starts_with("items/") || name.starts_with("users/");
}

namespace fs = std::filesystem;

/// Returns the checkpoint with this file name, if it is exactly the output of checkpoint_name(). Files such
/// as "epoch-1.h5" belong to other programs.
std::optional<CheckpointEntry> candidate_named(const std::string& name) {
  std::int64_t number = 0;
  if (const std::size_t dash = name.find('-'); dash != std::string::npos) {
    number = std::max<std::int64_t>(0, std::strtoll(name.c_str() + dash + 1, nullptr, 10));
  }
  for (const auto kind : {CheckpointKind::epoch, CheckpointKind::step, CheckpointKind::best}) {
    if (checkpoint_name(kind, number) == name) return CheckpointEntry{"", kind, number};
  }
  return std::nullopt;
}

/// Copies `file` to the new file `copy` and calls fsync on it. Returns 0, or the errno of the failure.
int copy_durably(const std::string& file, const std::string& copy) {
  const Descriptor from(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.is_open()) return errno;
  const Descriptor to = open_for_writing(copy, O_EXCL);
  if (!to.is_open()) return errno;
  std::vector<char> piece(std::size_t{4} << 20);
  for (off_t offset = 0;;) {
    const ssize_t got = read_at(from.value(), piece.data(), piece.size(), offset);
    if (got < 0) return errno;
    if (got == 0) return ::fsync(to.value()) == 0 ? 0 : errno;
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
    if (const int code = write_at(to.value(), bytes, offset); code != 0) return code;
    offset += got;
  }
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  HeaderBlock header;
  return read_header(open_file(path), header) > 0 && header.has_mark();
}

void write_checkpoint(const std::string& path, const Attributes& attributes,
                      std::span<const TensorSource> tensors, std::span<const ArraySource> arrays,
                      const DatasetSummary* summary) {
  Hdf5Writer file(path, sizeof(HeaderBlock));
  Attributes all = attributes;
  all["format_version"] = std::int64_t{checkpoint_format};
  file.write_attributes(all);
  for (const auto& tensor : tensors) write_tensor(file, tensor);
  for (const auto& array : arrays)
    std::visit([&](auto values) { file.write_array(array.name, values); }, array.values);
  if (summary != nullptr) write_summary(file, *summary);
  file.finish();
  HeaderBlock header;
  const auto* const bytes = reinterpret_cast<const char*>(&header);
  if (!measure(file.descriptor(), header)) throw_write_error(path, errno);
  const int code = write_at(file.descriptor(), {bytes, sizeof header}, 0);
  if (code != 0) throw_write_error(path, code);
  file.commit();
}

struct CheckpointFile::Content {
  explicit Content(const std::string& path)
      : checksum(verify_checksum(path)), file(path, how_to_get_a_checkpoint, true) {
    file.as_input_error([&] {
      attributes = file.attributes();
      file.require_known(attributes);
      std::vector<std::string> names;
      const auto add_name = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
        static_cast<std::vector<std::string>*>(to)->emplace_back(name);
        return 0;
      };
      h5::check(H5Lvisit(file.id(), H5_INDEX_NAME, H5_ITER_INC, add_name, &names), "list the tensors");
      for (const std::string& name : names) {
        if (!is_of_summary(name) && H5Iget_type(file.open_object(name).id()) != H5I_GROUP)
          add(file.open(name, 2));
      }
    });
  }

  void add(Hdf5Dataset dataset) {
    if (dataset.kind() != H5T_FLOAT && dataset.kind() != H5T_INTEGER)
      file.refuse(format("{} does not contain numbers", dataset.name));
    const bool vector = dataset.shape.size() == 1;
    infos.push_back({dataset.name, vector ? 1 : dataset.shape[0], dataset.shape.back()});
    datasets.push_back(std::move(dataset));
  }

  std::uint64_t checksum;
  Hdf5Reader file;
  Attributes attributes;
  std::vector<TensorInfo> infos;
  std::vector<Hdf5Dataset> datasets;  // in the order of infos
};

CheckpointFile::CheckpointFile(const std::string& path) : content_(std::make_shared<Content>(path)) {}

const std::string& CheckpointFile::path() const {
  return content_->file.path();
}
std::uint64_t CheckpointFile::checksum() const {
  return content_->checksum;
}
const Attributes& CheckpointFile::attributes() const {
  return content_->attributes;
}
const std::vector<CheckpointFile::TensorInfo>& CheckpointFile::tensors() const {
  return content_->infos;
}

const CheckpointFile::TensorInfo* CheckpointFile::find_tensor(const std::string& name) const {
  const auto found = std::ranges::find(tensors(), name, &TensorInfo::name);
  return found == tensors().end() ? nullptr : &*found;
}

const Attribute& CheckpointFile::attribute(const std::string& name, std::size_t kind) const {
  constexpr std::array kinds = {"an integer", "a floating-point number", "a string",
                                "a list of floating-point numbers"};
  const auto found = attributes().find(name);
  if (found == attributes().end()) content_->file.refuse(format("has no attribute {}", name));
  if (found->second.index() != kind)
    content_->file.refuse(format("attribute {} is not {}", name, kinds.at(kind)));
  return found->second;
}

std::size_t CheckpointFile::index_of(const std::string& name) const {
  const auto found = std::ranges::find(tensors(), name, &TensorInfo::name);
  if (found == tensors().end()) {
    content_->file.refuse(
        format("has no tensor {}, so it belongs to another model; check model.type and model.hidden", name));
  }
  return static_cast<std::size_t>(found - tensors().begin());
}

void CheckpointFile::read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                               std::span<float> out) const {
  const Hdf5Reader& file = content_->file;
  const std::size_t index = index_of(name);
  const TensorInfo& info = tensors()[index];
  const Hdf5Dataset& dataset = content_->datasets[index];
  if (begin < 0 || begin > end || end > info.rows ||
      static_cast<std::int64_t>(out.size()) != (end - begin) * info.columns) {
    file.refuse(format("tensor {} has shape ({}, {}); {} values of rows {} to {} were requested", name,
                       info.rows, info.columns, out.size(), begin, end));
  }
  if (dataset.kind() != H5T_FLOAT) file.refuse(format("{} does not contain floating-point values", name));
  if (out.empty()) return;
  file.as_input_error([&] {
    const bool vector = dataset.shape.size() == 1;
    h5::read_rows(dataset.id.id(), H5T_NATIVE_FLOAT, vector ? 0 : begin, vector ? info.columns : end - begin,
                  out.data());
  });
}

void CheckpointFile::for_each_row(
    const TensorInfo& tensor, const std::function<void(std::int64_t i, std::span<float> row)>& visit) const {
  const std::int64_t step = std::max<std::int64_t>(1, (1 << 20) / tensor.columns);
  std::vector<float> block;
  for (std::int64_t begin = 0; begin < tensor.rows; begin += step) {
    const std::int64_t end = std::min(tensor.rows, begin + step);
    block.resize((end - begin) * tensor.columns);
    read_rows(tensor.name, begin, end, block);
    for (std::int64_t i = begin; i < end; ++i)
      visit(i, std::span(block).subspan((i - begin) * tensor.columns, tensor.columns));
  }
}

template <class T>
std::vector<T> CheckpointFile::read_array(const std::string& name) const {
  const Hdf5Dataset& dataset = content_->datasets[index_of(name)];
  const H5T_class_t kind = std::is_integral_v<T> ? H5T_INTEGER : H5T_FLOAT;
  if (dataset.shape.size() != 1 || dataset.kind() != kind)
    content_->file.refuse(format("{} is not an array of {}", name,
                                 std::is_integral_v<T> ? "integers" : "floating-point values"));
  return content_->file.as_input_error([&] { return dataset.read<T>(0, dataset.shape[0]); });
}
template std::vector<std::int32_t> CheckpointFile::read_array(const std::string&) const;
template std::vector<std::int64_t> CheckpointFile::read_array(const std::string&) const;
template std::vector<float> CheckpointFile::read_array(const std::string&) const;
template std::vector<double> CheckpointFile::read_array(const std::string&) const;

DatasetSummary CheckpointFile::dataset() const {
  const Hdf5Reader& file = content_->file;
  const auto items = attribute<std::int64_t>("items");
  return file.as_input_error([&] {
    const auto require_one_per_item = [&](const char* name, std::int64_t size) {
      if (size != items)
        file.refuse(format("{} has {} elements, but the model has {} items", name, size, items));
    };
    const auto read = [&]<class T>(const char* name, std::vector<T>& to) {
      const Hdf5Dataset stored = file.open(name, 1);
      if (stored.kind() != H5T_INTEGER) file.refuse(format("{} is not an array of integers", name));
      to = stored.read<T>(0, stored.shape[0]);
    };
    DatasetSummary summary;
    summary.item_ids = file.ids(item_ids_path);
    require_one_per_item(item_ids_path, summary.item_ids.size());
    if (file.has(item_titles_path)) {
      summary.item_titles = file.ids(item_titles_path);
      require_one_per_item(item_titles_path, summary.item_titles.size());
    }
    read(item_users_path, summary.item_users);
    require_one_per_item(item_users_path, std::ssize(summary.item_users));
    if (file.has(user_hashes_path)) read(user_hashes_path, summary.user_hashes);
    return summary;
  });
}

std::string checkpoint_name(CheckpointKind kind, std::int64_t number) {
  if (kind == CheckpointKind::epoch) return format("epoch-{:04}.h5", number);
  if (kind == CheckpointKind::step) return format("step-{:08}.h5", number);
  return "best.h5";
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointEntry> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code vanished;
    auto candidate = candidate_named(entry->path().filename().string());
    if (!candidate || !entry->is_regular_file(vanished)) continue;
    candidate->path = entry->path().string();
    found.push_back(std::move(*candidate));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw CausedError(
        FailureCode::disk,
        format("{}: cannot be searched for checkpoints: {}; check that it is a folder and its permissions",
               folder, error.message()));
  }
  std::ranges::sort(found, {}, [](const CheckpointEntry& c) { return std::tuple(c.kind, c.number); });
  return found;
}

void link_or_copy(const std::string& file, const std::string& alias) {
  const std::string temporary = prepare_temporary(alias);
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (const int code = copy_durably(file, temporary); code != 0) {
      ::unlink(temporary.c_str());
      throw CausedError(FailureCode::disk,
                        format("{}: cannot be created from {}: {}; check its permissions and the disk", alias,
                               file, std::generic_category().message(code)));
    }
  }
  const int code = std::rename(temporary.c_str(), alias.c_str()) == 0 ? 0 : errno;
  // If both are already the same file, rename does nothing and leaves the temporary name.
  ::unlink(temporary.c_str());
  if (code != 0) throw_write_error(alias, code);
  sync_parent_folder(alias);
}

}  // namespace vaecf::io
