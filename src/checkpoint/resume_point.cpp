#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/resume_point.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/io/file_lock.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "checkpoint/trained_on.hpp"

namespace vaecf::checkpoint {
namespace {

/// Returns the depth of `file`, or of the target of a link, below `folder`: 1 if it is directly in the
/// folder, 0 if it is not below it. If both are below it, the smaller depth is returned.
int depth_in(const std::string& folder, const std::filesystem::path& file) {
  std::error_code ignored;
  const auto parent = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  int least = 0;
  for (std::filesystem::path path : {std::filesystem::canonical(parent, ignored),
                                     std::filesystem::canonical(file, ignored).parent_path()}) {
    for (int depth = 1; path.has_relative_path(); path = path.parent_path(), ++depth) {
      if (!std::filesystem::equivalent(path, folder, ignored)) continue;
      least = least == 0 ? depth : std::min(least, depth);
      break;
    }
  }
  return least;
}

struct ResumeCandidate {
  std::string path;
  TrainingState state;
};

/// Returns the newest valid checkpoint of the folder. File names order the checkpoints of a kind, so only the
/// newest of each kind is read. Damaged files are skipped with a warning. Throws InputError for a file of
/// another format or of a later version, since training from scratch instead would archive it.
std::optional<ResumeCandidate> newest_valid_checkpoint(const std::string& folder, Log& log) {
  std::array<std::optional<ResumeCandidate>, 3> newest;
  const auto candidates = io::list_checkpoints(folder);
  for (auto file = candidates.rbegin(); file != candidates.rend(); ++file) {
    auto& slot = newest[static_cast<std::size_t>(file->kind)];
    if (slot) continue;
    std::optional<io::CheckpointFile> whole;
    try {
      whole.emplace(file->path);
    } catch (const io::FileInUseError&) {
      throw;
    } catch (const io::OtherFormatError&) {
      throw;
    } catch (const InputError& error) {
      log.warn("skipping unreadable checkpoint: {}", error.what());
      continue;
    }
    slot = {file->path, read_training_state(file->path, *whole)};
  }
  std::optional<ResumeCandidate> found;
  for (auto& point : newest)
    if (point && (!found || point->state.updates_done > found->state.updates_done)) found = std::move(point);
  return found;
}

/// Returns the epoch of a checkpoint that was written at the end of an epoch; 0 if it was not, or is not
/// valid.
std::int64_t epoch_of(const std::string& path) {
  return read_or_zero(path, [](const io::CheckpointFile& file) {
    return file.attribute<std::int64_t>("step_in_epoch") == 0 ? file.attribute<std::int64_t>("epoch") : 0;
  });
}

/// Returns whether best.h5 contains the best epoch of `state`, after restoring it from another checkpoint of
/// that epoch if possible. For rank 0 only.
bool best_exists(const RunFolder& folder, const TrainingState& state) {
  if (epoch_of(folder.best()) == state.best_epoch) return true;
  // The previous run may have ended after it wrote the checkpoint, but before it created best.h5.
  const std::string by_epoch =
      folder.checkpoints() + "/" + io::checkpoint_name(io::CheckpointKind::epoch, state.best_epoch);
  for (const std::string& file : {folder.resume_from, by_epoch}) {
    if (epoch_of(file) != state.best_epoch) continue;
    io::link_or_copy(file, folder.best());
    return true;
  }
  return false;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const Context& context, const RunFolder& folder,
                                             const io::DatasetFile& dataset, const std::string& requested) {
  comm::Communicator& communicator = context.communicator;
  std::optional<ResumeCandidate> point;
  comm::run_on_root(communicator, [&] {
    if (requested == "auto") {
      point = newest_valid_checkpoint(folder.checkpoints(), context.log);
    } else {
      point = {requested, read_training_state(requested, io::CheckpointFile(requested))};
    }
  });
  if (communicator.all_reduce(std::int64_t{point ? 1 : 0}, comm::Reduction::max) == 0) return std::nullopt;
  if (!point) point.emplace();
  point->path = communicator.broadcast_string(std::move(point->path), 0);
  broadcast(point->state, communicator);
  require_same_dataset(point->path, point->state, dataset);
  return ResumePoint{point->path, point->state.configuration};
}

bool resumes_in_place(const Context& context, const RunFolder& folder) {
  return comm::query_root(context.communicator,
                          [&] { return depth_in(folder.checkpoints(), folder.resume_from) == 1; });
}

void reconcile_best_checkpoint(const Context& context, const RunFolder& folder, const std::string& select,
                               TrainingState& state) {
  if (state.best_epoch == 0) return;
  const bool there = comm::query_root(context.communicator, [&] {
    std::string other;
    if (state.select != select) {
      other = format("validation.select has changed from \"{}\" to \"{}\"", excerpt(state.select), select);
    } else if (!best_exists(folder, state)) {
      other = format("{} does not contain epoch {}, the best so far", folder.best(), state.best_epoch);
    }
    if (other.empty()) return true;
    context.log.warn("{}; best-epoch tracking restarts here", other);
    const std::string best = folder.best();
    if (std::filesystem::is_regular_file(best)) set_aside(folder, best);
    return false;
  });
  if (!there) state.reset_best();
}

}  // namespace vaecf::checkpoint
