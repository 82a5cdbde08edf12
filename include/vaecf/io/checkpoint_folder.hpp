#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

/// Removes what writers that were killed have left in `folder` (not below it): files of our own names
/// `NAME.tmp-HOST-PID` whose NAME begins with `prefix`, of processes of this host that live no longer; those
/// of other hosts once nobody has written to them for an hour. What cannot be removed is left.
void remove_stale_temporaries(const std::string& folder, std::string_view prefix = "");

}  // namespace vaecf::io
