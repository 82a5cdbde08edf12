#include <vaecf/checkpoint/resume_point.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/file_lock.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/previous_run.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "run/past_events.hpp"
#include "run/solve.hpp"

namespace vaecf::run {
namespace {

namespace fs = std::filesystem;

/// Returns the size of all files below `folder`; files with several names in it count once.
std::int64_t bytes_below(const fs::path& folder) {
  std::set<std::pair<dev_t, ino_t>> seen;
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat file {};
    if (::lstat(entry->path().c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
        seen.emplace(file.st_dev, file.st_ino).second)
      bytes += file.st_size;
  }
  return bytes;
}

/// Describes the run in the run folder: "a run of NAME, 200 epochs, 34.1 MiB". Returns an empty string if
/// the folder contains neither a checkpoint nor an event of a finished epoch or solution.
std::string describe_previous_run(const checkpoint::RunFolder& folder) {
  std::string model;
  std::int64_t epochs = 0;
  std::int64_t solutions = 0;
  for (const io::Json& event : read_events(folder)) {
    const auto kind = io::event_kind(event);
    if (kind == io::EventKind::start) model = io::get_string(event, "model", model);
    if (kind == io::EventKind::epoch)
      epochs = std::max(epochs, static_cast<std::int64_t>(io::get_number(event, "epoch")));
    if (kind == io::EventKind::solve) ++solutions;
  }
  const auto checkpoints = io::list_checkpoints(folder.checkpoints());
  if (checkpoints.empty() && epochs == 0 && solutions == 0) return "";
  for (const io::CheckpointEntry& entry : checkpoints) {
    if (!model.empty()) break;
    try {
      const io::CheckpointFile file(entry.path);
      model = file.attribute<std::string>("model_type");
      const models::Kind* kind = models::find_kind(model);
      (kind != nullptr && models::is_solved(kind->type()) ? solutions : epochs) =
          file.attribute<std::int64_t>("epoch");
    } catch (const InputError&) {  // damaged files are moved as well
    }
  }
  const bool solved = solutions > 0;
  const std::int64_t count = solved ? solutions : epochs;
  return format("a run of {}, {} {}{}, {:.1f} MiB", model.empty() ? "an unknown model" : model, count,
                solved ? "solution" : "epoch", count == 1 ? "" : "s",
                static_cast<double>(bytes_below(folder.path)) / 1048576.0);
}

/// Moves the contents of `folder`, except its lock file, to a new folder FOLDER.N, and returns its path. N is
/// the smallest free number from 1. Throws InputError if that is not possible, with all files at their
/// places.
std::string move_contents(const std::string& folder) {
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != io::DirectoryLock::file_name) names.push_back(entry.path().filename());
  std::string target;
  std::error_code error;
  for (int n = 1;; ++n) {
    target = format("{}.{}", folder, n);
    if (::mkdir(target.c_str(), 0777) == 0) break;
    if (errno == EEXIST) continue;
    error = {errno, std::generic_category()};
    break;
  }
  std::size_t moved = 0;
  while (!error && moved < names.size()) {
    fs::rename(folder / names[moved], target / names[moved], error);
    if (!error) ++moved;
  }
  if (!error) return target;
  std::error_code ignored;
  for (; moved > 0; --moved) fs::rename(target / names[moved - 1], folder / names[moved - 1], ignored);
  fs::remove(target, ignored);  // removes only an empty folder
  throw InputError(format(
      "{}: the run in this folder cannot be moved to {} ({}); move or delete it, continue with --resume, or use another name or run.directory",
      folder, target, error.message()));
}

/// Returns the path of `path` relative to `folder`, both with links resolved; nullopt if it is not below it.
std::optional<fs::path> path_below(const std::string& folder, const fs::path& path) {
  if (path.empty()) return std::nullopt;
  std::error_code ignored;
  fs::path inner = fs::weakly_canonical(path, ignored).lexically_relative(fs::canonical(folder, ignored));
  if (inner.empty() || *inner.begin() == "..") return std::nullopt;
  return inner;
}

/// Returns whether the file `path`, or a link of that name, is moved with the contents of `folder`.
bool moves_with(const std::string& folder, const std::string& path) {
  return path_below(folder, path) || path_below(folder, fs::absolute(path).parent_path());
}

}  // namespace

void move_previous_run(Run& run) {
  comm::Communicator& ranks = run.communicator;
  if (!run.resume_from.empty()) {
    if (models::is_solved(run.options.model.type)) {
      if (continues_solutions(run)) return;
      run.resume_from.clear();
    } else if (checkpoint::resumes_in_place(run, run.folder())) {
      return;
    }
  }
  comm::run_on_root(ranks, [&] {
    const std::string previous = describe_previous_run(run.folder());
    if (previous.empty()) return;
    const std::string folder = run.options.run_folder();
    if (moves_with(folder, run.options.data.file)) {
      throw InputError(format(
          "data.file: {} is in the folder {}, whose contents are moved when a new run begins; move the dataset to another folder",
          run.options.data.file, folder));
    }
    const std::array<std::string*, 2> paths{&run.resume_from, &run.start_from};
    // Links are resolved before they are moved.
    for (std::string* path : paths)
      if (!path->empty() && moves_with(folder, *path)) *path = fs::weakly_canonical(*path).string();
    const std::string target = move_contents(folder);
    for (std::string* path : paths)
      if (const auto inner = path_below(folder, *path)) *path = (target / *inner).string();
    run.log.info("{} contained {}, which was moved to {}", folder, previous, target);
  });
  run.resume_from = ranks.broadcast_string(std::move(run.resume_from), 0);
  run.start_from = ranks.broadcast_string(std::move(run.start_from), 0);
}

}  // namespace vaecf::run
