#include "resume.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include "agreement.hpp"
#include "checkpoint_reading.hpp"
#include "run_log.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace vaecf::train {
namespace {

/// Returns how many folders deep the file, or what it is a link to, lies in `folder`: 1: directly; 0: it does
/// not.
int depth_in(const std::string& folder, const std::filesystem::path& file) {
  std::error_code ignored;
  const auto parent = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  int least = 0;
  for (std::filesystem::path place : {std::filesystem::canonical(parent, ignored),
                                      std::filesystem::canonical(file, ignored).parent_path()}) {
    for (int depth = 1; place.has_relative_path(); place = place.parent_path(), ++depth) {
      if (!std::filesystem::equivalent(place, folder, ignored)) continue;
      least = least == 0 ? depth : std::min(least, depth);
      break;
    }
  }
  return least;
}

/// A checkpoint to continue from, and its state.
struct Point {
  std::string path;
  RunState state;
};

/// The newest whole checkpoint of the folder. Within a kind the number tells which is newer, so that only the
/// newest of each needs to be read. Damaged ones are passed over; one that is whole and of another format is
/// refused: to train from the start instead would move it aside.
std::optional<Point> newest_whole(const std::string& folder, Log& log) {
  std::array<std::optional<Point>, 3> newest;
  const auto candidates = io::list_checkpoints(folder);
  for (auto file = candidates.rbegin(); file != candidates.rend(); ++file) {
    auto& slot = newest[static_cast<std::size_t>(file->kind)];
    if (slot) continue;
    std::optional<io::CheckpointFile> whole;
    try {
      whole.emplace(file->path);
    } catch (const InputError& error) {
      log.warn("passed over: {}", error.what());
      continue;
    }
    slot = {file->path, state_of(file->path, *whole)};
  }
  std::optional<Point> found;
  for (auto& point : newest) {
    if (point && (!found || point->state.updates_done > found->state.updates_done)) found = std::move(point);
  }
  return found;
}

Point read_named(const SessionOptions& options, const std::string& path) {
  const std::string folder = options.checkpoint_folder();
  if (depth_in(folder + ".old", path) > 0 || depth_in(folder, path) > 1) {
    throw InputError(format(
        "{}: it lies where a new run moves old checkpoints from or to, and would be lost; move it to another "
        "folder first",
        path));
  }
  return {path, state_of(path, io::CheckpointFile(path))};
}

/// The epoch that a checkpoint of its end holds; 0 where there is no whole one.
std::int64_t epoch_of(const std::string& path) {
  try {
    const io::CheckpointFile file(path);
    return file.attribute<std::int64_t>("step_in_epoch") == 0 ? file.attribute<std::int64_t>("epoch") : 0;
  } catch (const InputError&) {
    return 0;
  }
}

/// On rank 0. False where the best is lost.
bool best_is_there(const SessionOptions& options, const RunState& state) {
  if (epoch_of(options.best_checkpoint()) == state.best_epoch) return true;
  // A run that ended between writing a checkpoint and giving it its second name, or could not give it.
  const std::string by_epoch =
      options.checkpoint_folder() + "/" + io::checkpoint_name(io::CheckpointKind::epoch, state.best_epoch);
  for (const std::string& file : {options.resume_from, by_epoch}) {
    if (epoch_of(file) != state.best_epoch) continue;
    io::publish_alias(file, options.best_checkpoint());
    return true;
  }
  return false;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const SessionOptions& options, const Services& services,
                                             const std::string& wanted) {
  comm::Communicator& communicator = services.communicator;
  std::optional<Point> point;
  on_root(communicator, [&] {
    if (wanted == "auto") {
      point = newest_whole(options.checkpoint_folder(), services.log);
    } else {
      point = read_named(options, wanted);
    }
  });
  if (communicator.all_reduce(std::int64_t{point ? 1 : 0}, comm::Reduction::max) == 0) return std::nullopt;
  if (!point) point.emplace();
  point->path = communicator.broadcast_text(std::move(point->path), 0);
  broadcast(point->state, communicator);
  require_same_dataset(point->path, point->state, io::DatasetFile(options.data.file));
  return ResumePoint{point->path, point->state.configuration};
}

bool goes_on_in_its_folder(const SessionOptions& options, comm::Communicator& communicator) {
  std::int64_t there = 0;
  on_root(communicator,
          [&] { there = depth_in(options.checkpoint_folder(), options.resume_from) == 1 ? 1 : 0; });
  communicator.broadcast(std::span<std::int64_t>(&there, 1), 0);
  return there == 1;
}

void settle_best(const SessionOptions& options, const Services& services, const std::string& select,
                 RunState& state) {
  if (state.best_epoch == 0) return;
  std::int64_t there = 0;
  on_root(services.communicator, [&] {
    std::string other;
    if (state.select != select) {
      other = format("the best epoch was told by \"{}\" before, and is by \"{}\" now", state.select, select);
    } else if (!best_is_there(options, state)) {
      other =
          format("{} does not hold epoch {}, the best so far", options.best_checkpoint(), state.best_epoch);
    }
    there = other.empty() ? 1 : 0;
    if (there == 1) return;
    services.log.warn("{}: the best epoch is looked for anew from here on", other);
    const std::string best = options.best_checkpoint();
    if (std::filesystem::is_regular_file(best)) move_checkpoint_aside(options, best);
  });
  services.communicator.broadcast(std::span<std::int64_t>(&there, 1), 0);
  if (there == 0) state.forget_best();
}

}  // namespace vaecf::train
