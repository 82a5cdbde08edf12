#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/io/id_list.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vaecf::io {

using Attribute = std::variant<std::int64_t, double, std::string, std::vector<double>>;
using Attributes = std::map<std::string, Attribute>;

/// Returns the program that wrote a file with these attributes, by its attribute `written_by`: "vaecf_dist
/// 1.0.0 (0123abcd)"; "an unknown program" without it.
std::string writer_of(const Attributes& attributes);

/// Tensor to be written to a checkpoint. `read_rows(begin, end, out)` fills `out` with the rows [begin, end),
/// row-major.
struct TensorSource {
  std::string name;  ///< path below the root, e.g. "weights/encoder_1/weight"
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool vector = false;  ///< stored with one dimension (biases): rows must be 1
  std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)> read_rows;
};

/// The part of a dataset that a checkpoint contains, so that its model can be served without the dataset.
struct DatasetSummary {
  IdList item_ids;                         ///< /items/id (I)
  IdList item_titles;                      ///< /items/title (I), or empty
  std::vector<std::int32_t> item_users;    ///< /items/users (I): number of train users of each item
  std::vector<std::uint32_t> user_hashes;  ///< /users/hash: of the train users, ascending; or empty
};

/// One-dimensional array to be written to a checkpoint.
struct ArraySource {
  std::string name;  ///< path below the root, e.g. "weights/items/indptr"
  std::variant<std::span<const std::int32_t>, std::span<const std::int64_t>, std::span<const float>,
               std::span<const double>>
      values;
};

/// Writes a checkpoint atomically: temporary file next to `path`, checksum, fsync, rename, fsync of the
/// folder. The file starts with a 512-byte HDF5 user block of magic, format, length and xxh3 (64 bit) of all
/// bytes after the block. Attributes of / are stored with fixed-length strings; `format_version` is added.
/// `dataset` is written unless it is null. Throws RunError if the disk is full or not writable, and removes
/// the temporary file.
void write_checkpoint(const std::string& path, const Attributes& attributes,
                      std::span<const TensorSource> tensors, std::span<const ArraySource> arrays = {},
                      const DatasetSummary* dataset = nullptr);

/// Thrown for a checkpoint of another format, which may be intact.
struct OtherFormatError : InputError {
  using InputError::InputError;
};

/// Returns whether `path` begins with the magic bytes of a checkpoint; the rest may be damaged. Returns false
/// if the file cannot be read.
bool is_checkpoint(const std::string& path);

/// A checkpoint file with a verified checksum. Copies share the open file.
class CheckpointFile {
 public:
  /// Reads the whole file to verify it. Throws InputError if the file is missing, not a checkpoint, truncated
  /// or damaged, and OtherFormatError if it has another format.
  explicit CheckpointFile(const std::string& path);

  const std::string& path() const;
  /// Returns the xxh3 (64 bit) of the file contents. Two different checkpoints have the same checksum only
  /// with negligible probability.
  std::uint64_t checksum() const;
  const Attributes& attributes() const;
  /// Returns the attribute as T (int64_t, double, std::string or std::vector<double>). Throws InputError if
  /// it is absent or of another type.
  template <class T>
  T attribute(const std::string& name) const {
    return std::get<T>(attribute(name, Attribute(std::in_place_type<T>).index()));
  }

  struct TensorInfo {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
  };
  /// Returns all tensors and arrays except those of dataset(). An array has one row.
  const std::vector<TensorInfo>& tensors() const;
  /// Returns the tensor or array of this name; null if there is none.
  const TensorInfo* find_tensor(const std::string& name) const;
  /// Fills `out` with rows [begin, end) of tensor `name`. A one-dimensional tensor has one row. Throws
  /// InputError if the tensor does not exist, contains no floating-point values, or the sizes do not match.
  void read_rows(const std::string& name, std::int64_t begin, std::int64_t end, std::span<float> out) const;
  /// Calls visit(i, row) for every row i of a tensor, which is read in blocks.
  void for_each_row(const TensorInfo& tensor,
                    const std::function<void(std::int64_t i, std::span<float> row)>& visit) const;
  /// Returns the array `name` of int32, int64, float or double. Throws InputError if it does not exist, has
  /// two dimensions, or contains floating-point values instead of integers or conversely.
  template <class T>
  std::vector<T> read_array(const std::string& name) const;
  /// Reads the summary of the dataset. Throws InputError if it is missing, or does not match the number of
  /// items.
  DatasetSummary dataset() const;

 private:
  const Attribute& attribute(const std::string& name, std::size_t kind) const;
  std::size_t index_of(const std::string& name) const;

  struct Content;
  std::shared_ptr<const Content> content_;
};

/// Kind of a checkpoint in a run's folder, given by its file name.
enum class CheckpointKind {
  epoch,  ///< epoch-0012.h5: after this number of epochs
  step,   ///< step-00001234.h5: after this number of updates, within an epoch
  best,   ///< best.h5: the best by validation; not numbered
};

struct CheckpointEntry {
  std::string path;  ///< path, including the folder
  CheckpointKind kind = CheckpointKind::epoch;
  std::int64_t number = 0;
};

/// Returns the file name of a checkpoint. `number` must not be negative.
std::string checkpoint_name(CheckpointKind kind, std::int64_t number = 0);

/// Returns the files in `folder` whose names checkpoint_name() produces, ordered by kind, then number. Their
/// contents are not checked. Returns an empty list if the folder does not exist. Throws RunError if it cannot
/// be read.
std::vector<CheckpointEntry> list_checkpoints(const std::string& folder);

/// Makes `alias` a hard link to `file`, or a copy if the file system does not support hard links. Replaces an
/// existing `alias` atomically. Later changes of `file`'s name do not affect `alias`. Throws RunError on
/// failure, and then leaves `alias` unchanged.
void link_or_copy(const std::string& file, const std::string& alias);

}  // namespace vaecf::io
