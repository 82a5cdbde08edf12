#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// One tensor on its way into a checkpoint: `read_rows(begin, end, out)` fills logical rows, row-major.
struct TensorSource {
  std::string name;  ///< path below the root, e.g. "weights/encoder_1/weight"
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool vector = false;  ///< stored with one dimension (biases): rows must be 1
  std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)> read_rows;
};

/// Writes a whole checkpoint or none: temporary file beside `path`, checksum, fsync, rename, fsync of the
/// folder. Layout: 512-byte HDF5 user block holding magic, length and an xxh3 (64 bit) of all bytes behind
/// it; attributes of / with fixed-length strings. RunError where the disk is full or not writable; the
/// temporary file is gone then.
void write_checkpoint(const std::string& path, const Attributes& attributes,
                      std::span<const TensorSource> tensors);

/// Whether `path` starts like a checkpoint (it may still be damaged); false where it cannot be read.
bool is_checkpoint(const std::string& path);

/// A checkpoint that passed its checksum. InputError (with path, problem, what to do) otherwise.
class CheckpointFile {
 public:
  explicit CheckpointFile(const std::string& path);

  /// The checksum of all its bytes: files that differ have, as good as surely, other ones.
  std::uint64_t checksum() const;
  const Attributes& attributes() const;
  /// The attribute as T (int64_t, double, std::string or std::vector<double>); InputError if absent or of
  /// another type.
  template <class T>
  T attribute(const std::string& name) const {
    return std::get<T>(attribute(name, Attribute(std::in_place_type<T>).index()));
  }

  struct TensorInfo {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
  };
  const std::vector<TensorInfo>& tensors() const;
  /// Fills `out` with logical rows [begin, end) of `name`. InputError if it is not there.
  void read_rows(const std::string& name, std::int64_t begin, std::int64_t end, std::span<float> out) const;

 private:
  const Attribute& attribute(const std::string& name, std::size_t kind) const;

  struct Content;
  std::shared_ptr<const Content> content_;  // copies share the open file
};

/// What a checkpoint in a run's folder stands for, by its name.
enum class CheckpointKind {
  epoch,  ///< epoch-0012.h5: after so many epochs
  step,   ///< step-00001234.h5: after so many updates, within an epoch
  best,   ///< best.h5: the best by validation; has no number
};

struct CheckpointCandidate {
  std::string path;  ///< folder and name
  CheckpointKind kind = CheckpointKind::epoch;
  std::int64_t number = 0;
};

/// The name of a checkpoint within its folder. `number` is not negative.
std::string checkpoint_name(CheckpointKind kind, std::int64_t number = 0);

/// The files in `folder` that are named as checkpoint_name() would; whether they are whole only
/// CheckpointFile can tell. In order of kind, then number. A folder that does not exist holds none; RunError
/// for one that cannot be read.
std::vector<CheckpointCandidate> list_checkpoints(const std::string& folder);

/// Gives what is in `file` the name `alias` as well, at once: a hard link, or a copy where there can be none.
/// Whatever becomes of `file` later, `alias` stays. RunError where it cannot be done; `alias` is as it was
/// then.
void publish_alias(const std::string& file, const std::string& alias);

}  // namespace vaecf::io
