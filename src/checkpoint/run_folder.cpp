#include <vaecf/base/failure.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/file_lock.hpp>
#include <vaecf/io/json.hpp>

#include <filesystem>
#include <system_error>

namespace vaecf::checkpoint {
namespace {

void set_aside_later_checkpoints(const RunFolder& folder, std::int64_t epochs_done, std::int64_t step) {
  // Of best.h5, whose name does not contain it.
  const auto step_of = [](const io::CheckpointFile& file) { return file.attribute<std::int64_t>("step"); };
  for (const io::CheckpointEntry& file : io::list_checkpoints(folder.checkpoints())) {
    const bool later = (file.kind == io::CheckpointKind::epoch && file.number > epochs_done) ||
                       (file.kind == io::CheckpointKind::step && file.number > step) ||
                       (file.kind == io::CheckpointKind::best && read_or_zero(file.path, step_of) > step);
    if (later) set_aside(folder, file.path);
  }
}

}  // namespace

std::int64_t read_or_zero(const std::string& path,
                          const std::function<std::int64_t(const io::CheckpointFile& file)>& read) {
  try {
    return read(io::CheckpointFile(path));
  } catch (const io::FileInUseError&) {
    throw;
  } catch (const InputError&) {
    return 0;
  }
}

void set_aside(const RunFolder& run, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = run.checkpoints() + "/aside";
  const fs::path name = fs::path(path).filename();
  std::error_code error;
  fs::create_directories(folder, error);
  fs::path target = folder / name;
  for (int n = 1; fs::exists(fs::symlink_status(target, error)); ++n)
    target = folder / format("{}.{}{}", name.stem().string(), n, name.extension().string());
  fs::rename(path, target, error);
  if (!error) return;
  throw CausedError(
      FailureCode::disk,
      format(
          "{}: this checkpoint does not match the resumed run and cannot be moved to {} ({}); check the permissions, or move or delete it",
          path, folder.string(), error.message()));
}

void prepare_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw CausedError(
        FailureCode::disk,
        format(
            "{}: the run folder cannot be created ({}); check the permissions, or use another run.directory or name",
            folder, error.message()));
  }
  io::AtomicOutputFile probe(folder + "/.writable");  // removed, because it is not committed
  probe.write("\n");
}

void rewind_run_folder(const RunFolder& folder, Log& log, std::int64_t epochs_done, std::int64_t step) {
  // Checkpoints are moved first: if the run is killed in between, the log still covers the newest checkpoint.
  set_aside_later_checkpoints(folder, epochs_done, step);
  const io::FilterResult cut = io::filter_event_log(folder.log(), [&](const io::Json& event) {
    using enum io::EventKind;
    const auto kind = io::event_kind(event);
    if (kind == end || kind == test) return false;  // the run is no longer finished
    if (kind == epoch || kind == validation) return io::get_number(event, "epoch") <= epochs_done;
    return io::get_number(event, kind == solve ? "solution" : "step") <= step;
  });
  if (cut.dropped + cut.unreadable > 0) {
    log.debug("metrics.jsonl: removed {} lines newer than the checkpoint and {} unreadable ones", cut.dropped,
              cut.unreadable);
  }
}

}  // namespace vaecf::checkpoint
