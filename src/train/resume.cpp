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

/// Where the file lies, and where what it is a link to lies.
std::array<std::filesystem::path, 2> folders_of(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto parent = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  return {std::filesystem::canonical(parent, ignored),
          std::filesystem::canonical(file, ignored).parent_path()};
}

bool lies_in(const std::filesystem::path& file, const std::string& folder) {
  std::error_code ignored;
  const auto places = folders_of(file);
  return std::any_of(places.begin(), places.end(),
                     [&](const auto& place) { return std::filesystem::equivalent(place, folder, ignored); });
}

bool lies_below(const std::filesystem::path& file, const std::string& folder) {
  std::error_code ignored;
  for (std::filesystem::path place : folders_of(file)) {
    for (; place.has_relative_path(); place = place.parent_path()) {
      if (std::filesystem::equivalent(place, folder, ignored)) return true;
    }
  }
  return false;
}

ResumePoint read_point(const std::string& path, const io::CheckpointFile& file) {
  require_format(path, file);
  const RunState state = state_of(path, file);
  return {.path = path,
          .configuration = file.attribute<std::string>("configuration"),
          .fingerprint = file.attribute<std::string>("dataset_checksum"),
          .epoch = state.epoch,
          .step = state.updates_done,
          .items = file.attribute<std::int64_t>("items")};
}

/// The newest whole checkpoint of the folder. Within a kind the number tells which is newer, so that only the
/// newest of each needs to be read. Damaged ones are passed over; one that is whole and of another format is
/// refused: to train from the start instead would move it aside.
std::optional<ResumePoint> newest_whole(const std::string& folder, Log& log) {
  std::array<std::optional<ResumePoint>, 3> newest;
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
    slot = read_point(file->path, *whole);
  }
  std::optional<ResumePoint> found;
  for (auto& point : newest) {
    if (point && (!found || point->step > found->step)) found = std::move(point);
  }
  return found;
}

ResumePoint read_named(const SessionOptions& options, const std::string& path) {
  const std::string folder = options.checkpoint_folder();
  if (lies_below(path, folder + ".old") || (lies_below(path, folder) && !lies_in(path, folder))) {
    throw InputError(format(
        "{}: it lies where a new run moves old checkpoints from or to, and would be lost; move it to another "
        "folder first",
        path));
  }
  return read_point(path, io::CheckpointFile(path));
}

/// Rank 0's point, if it has one, on all ranks.
void broadcast(std::optional<ResumePoint>& point, comm::Communicator& communicator) {
  std::array<std::int64_t, 4> numbers = {point ? 1 : 0, point ? point->epoch : 0, point ? point->step : 0,
                                         point ? point->items : 0};
  communicator.broadcast(std::span<std::int64_t>(numbers), 0);
  if (numbers[0] == 0) return;
  if (!point) point.emplace();
  point->epoch = numbers[1];
  point->step = numbers[2];
  point->items = numbers[3];
  for (std::string* text : {&point->path, &point->configuration, &point->fingerprint}) {
    *text = communicator.broadcast_text(std::move(*text), 0);
  }
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
  std::optional<ResumePoint> point;
  on_root(communicator, [&] {
    if (wanted == "auto") {
      point = newest_whole(options.checkpoint_folder(), services.log);
    } else {
      point = read_named(options, wanted);
    }
  });
  broadcast(point, communicator);
  if (point) {
    require_same_dataset(point->path, point->items, point->fingerprint, io::DatasetFile(options.data.file));
  }
  return point;
}

bool goes_on_in_its_folder(const SessionOptions& options, comm::Communicator& communicator) {
  std::int64_t there = 0;
  on_root(communicator, [&] { there = lies_in(options.resume_from, options.checkpoint_folder()) ? 1 : 0; });
  communicator.broadcast(std::span<std::int64_t>(&there, 1), 0);
  return there == 1;
}

void settle_best(const SessionOptions& options, const Services& services, const std::string& select,
                 RunState& state) {
  if (state.best_epoch == 0) return;
  std::int64_t there = 0;
  on_root(services.communicator, [&] {
    std::string other;
    const auto before = io::CheckpointFile(options.resume_from).attribute<std::string>("select");
    if (before != select) {
      other = format("the best epoch was told by \"{}\" before, and is by \"{}\" now", before, select);
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
  if (there == 0) state.best_epoch = 0;
}

}  // namespace vaecf::train
