#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::io {

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
