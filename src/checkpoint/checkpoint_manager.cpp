#include <vaecf/base/failure.hpp>
#include <vaecf/checkpoint/checkpoint_manager.hpp>
#include <vaecf/checkpoint/last_write.hpp>
#include <vaecf/comm/collective_checks.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "checkpoint/tensor_rows.hpp"

namespace vaecf::checkpoint {
namespace {

/// Lists checkpoints in order of training progress. Names contain the epoch or the step, which are converted
/// to steps. File times are not used, since copying a folder may change them.
std::vector<std::string> resumable_checkpoints(const std::string& folder, std::int64_t steps_per_epoch) {
  std::vector<std::pair<std::int64_t, std::string>> files;
  for (const io::CheckpointEntry& file : io::list_checkpoints(folder)) {
    if (file.kind == io::CheckpointKind::best) continue;
    const std::int64_t unit = file.kind == io::CheckpointKind::epoch ? steps_per_epoch : 1;
    files.emplace_back(file.number * unit, file.path);
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> paths;
  for (auto& [step, path] : files) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

CheckpointManager::CheckpointManager(const Context& context, RunFolder folder, std::int64_t steps_per_epoch,
                                     RunLog& events)
    : context_(context), folder_(std::move(folder)), events_(events) {
  if (context.communicator.rank() == 0) kept_ = resumable_checkpoints(folder_.checkpoints(), steps_per_epoch);
}

CheckpointManager::~CheckpointManager() {
  if (writing_.valid()) writing_.wait();
}

Snapshot CheckpointManager::free_snapshot(training::Trainer& trainer) {
  constexpr int max_snapshots = 3;  // being written: the best and the last; in memory: a new best
  for (;;) {
    poll();
    if (free_.empty() && snapshots_ < (folder_.automatic ? max_snapshots : 1)) {
      try {
        auto values = trainer.make_state_copy(snapshots_ > 0);
        if (values) {
          free_.emplace_back(std::move(values));
          ++snapshots_;
        }
      } catch (const std::bad_alloc&) {
        throw CausedError(
            FailureCode::memory,
            "rank 0 does not have enough memory for the copy of a checkpoint (three times the weights); use a smaller model, or a host with more memory");
      }
    }
    if (!free_.empty()) {
      Snapshot free = std::move(free_.back());
      free_.pop_back();
      return free;
    }
    if (!writing_.valid()) start();  // the best occupies the only snapshot
    wait();
  }
}

void CheckpointManager::save(const TrainingState& state, CheckpointRole role, training::Trainer& trainer) {
  Activity& activity = context_.communicator.activity();
  const Phase before = activity.report().phase;
  activity.enter(Phase::checkpoint);
  const Timeline::Span span(activity.timeline(), Track::run, "checkpoint", "step", state.updates_done);
  if (std::exchange(saved_step_, state.updates_done) != state.updates_done) saved_ = {};
  saved_ = {saved_.resumable || role.resumable, saved_.best || role.best};
  if (context_.item_slices() > 1) {
    save_item_slices(state, role, trainer);
    activity.enter(before);
    return;
  }
  const bool waits = role.resumable || !folder_.automatic;
  Write write{Snapshot(), role};
  comm::run_on_root(context_.communicator, [&] {
    superseded_ = folder_.automatic && role.resumable;
    if (waits) wait();
    require_finite();
    if (role.best && best_) {
      free_.push_back(std::move(best_->snapshot));
      best_.reset();
    }
    write.snapshot = free_snapshot(trainer);
    require_finite();
  });
  const auto begin = Clock::now();
  write.snapshot.take(context_, state, trainer);
  write.copy_seconds = seconds_since(begin);
  spent_seconds_ += write.copy_seconds;
  if (role.resumable) last_step_ = state.updates_done;
  activity.enter(before);
  if (context_.communicator.rank() != 0) return;

  if (waits) return start(std::move(write));
  best_ = std::move(write);
}

void CheckpointManager::save_item_slices(const TrainingState& state, CheckpointRole role,
                                         training::Trainer& trainer) {
  comm::run_on_root(context_.communicator, [&] { require_finite(); });
  GatheredState gathered(context_, trainer);
  Write write{Snapshot([&](auto tensors, int tensor, Range rows, auto to) {
                gathered.read_rows(tensors, tensor, rows, to);
              }),
              role};
  write.snapshot.take(context_, state, trainer);
  if (role.resumable) last_step_ = state.updates_done;
  if (context_.model_parallel_group() > 0) return;
  if (context_.communicator.rank() > 0) return gathered.serve();
  std::vector<Write> writes;
  writes.push_back(std::move(write));
  for (Write& done : write_all(std::move(writes), context_.communicator.activity().timeline())) {
    gathered.finish();
    on_write_finished(std::move(done));
  }
}

std::vector<CheckpointManager::Write> CheckpointManager::write_all(
    std::vector<Write> writes, const std::shared_ptr<Timeline>& timeline) {
  std::string error;
  for (Write& write : writes) {
    const auto begin = Clock::now();
    const Timeline::Span span(timeline, Track::writer, "writing a checkpoint", "step", write.snapshot.step());
    write.file = write.role.resumable ? folder_.checkpoints() + "/" + write.snapshot.name() : folder_.best();
    // A checkpoint to resume from must not name a best epoch that is not on disk.
    write.error = error;
    write.skipped = superseded_ && !write.role.best;
    if (write.skipped || !error.empty()) continue;
    try {
      write.snapshot.write(write.file);
    } catch (const Snapshot::Diverged& problem) {
      write.diverged = true;
      write.error = problem.what();
    } catch (const std::exception& problem) {
      write.error = problem.what();
    }
    if (write.error.empty() && write.role.resumable && write.role.best) {
      try {
        io::link_or_copy(write.file, folder_.best());
      } catch (const std::exception& problem) {
        write.best_error = problem.what();
      }
    }
    error = write.error;
    write.seconds = seconds_since(begin);
  }
  return writes;
}

void CheckpointManager::start(std::optional<Write> next) {
  std::vector<Write> writes;
  if (best_) writes.push_back(*std::exchange(best_, std::nullopt));
  if (next) writes.push_back(std::move(*next));
  superseded_ = false;
  writing_ = std::async(std::launch::async, [this, timeline = context_.communicator.activity().timeline(),
                                             todo = std::move(writes)]() mutable {
    return write_all(std::move(todo), timeline);
  });
}

void CheckpointManager::wait() {
  if (!writing_.valid()) return;
  for (Write& done : writing_.get()) on_write_finished(std::move(done));
}

void CheckpointManager::poll() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) wait();
}

bool CheckpointManager::due() {
  return comm::query_root(context_.communicator, [&] {
    poll();
    require_finite();
    return !writing_.valid() && spent_seconds_ < 0.1 * seconds_since(begin_);
  });
}

void CheckpointManager::require_finite() const {
  if (!diverged_.empty()) throw CausedError(FailureCode::diverged, diverged_);
}

void CheckpointManager::on_write_finished(Write done) {
  const std::string& error = done.error.empty() ? done.best_error : done.error;
  const bool retry =
      context_.item_slices() == 1 && folder_.automatic && !done.role.resumable && !error.empty() && !best_;
  spent_seconds_ += done.seconds;
  if (done.diverged) diverged_ = done.error;
  if (!done.skipped && !done.diverged) {
    if (done.role.resumable) resumable_error_ = done.error;
    if (done.role.best) best_error_ = error;
    if (done.role.resumable && done.error.empty()) {
      last_file_ = done.file;
      std::erase(kept_, done.file);
      kept_.push_back(done.file);
      prune();
    }
    io::Event event(error.empty() ? io::EventKind::checkpoint : io::EventKind::checkpoint_failed);
    event.set("epoch", done.snapshot.epoch())
        .set("step", done.snapshot.step())
        .set("file", done.file)
        .set("best", done.role.best)
        .set("copy_seconds", done.copy_seconds)
        .set("seconds", done.seconds);
    if (error.empty()) {
      context_.log.debug("checkpoint {}: copied in {:.2f} s, written in the background in {:.2f} s",
                         done.file, done.copy_seconds, done.seconds);
    } else {
      event.set("error", error);
    }
    events_.note_checkpoint(error.empty() ? "" : "checkpoint: " + error);
    events_.write(event);
  }
  if (retry) {
    best_ = Write{std::move(done.snapshot), done.role, done.copy_seconds};
  } else if (context_.item_slices() == 1) {
    free_.push_back(std::move(done.snapshot));
  }
}

void CheckpointManager::prune() {
  while (static_cast<std::int64_t>(kept_.size()) > folder_.keep) {
    std::error_code ignored;  // a file that cannot be removed is harmless
    std::filesystem::remove(kept_.front(), ignored);
    kept_.erase(kept_.begin());
  }
}

std::string CheckpointManager::write_rest(bool stopped) {
  wait();
  if (best_ && diverged_.empty()) {
    start();
    wait();
  }
  require_finite();
  if (!best_error_.empty() && !stopped)
    return format("training is done, but best.h5 could not be written: {}", best_error_);
  if (resumable_error_.empty()) return "";
  return format("{}, but its last checkpoint could not be written: {}",
                stopped ? "training was stopped" : "training is done", resumable_error_);
}

void CheckpointManager::finish(bool stopped, const std::function<void(CheckpointRole missing)>& save_again) {
  LastWrite last(context_, folder_.retry_seconds);
  std::string error;           // on rank 0
  std::array<bool, 3> next{};  // whether to attempt again, and what to save for that
  do {
    comm::run_on_root(context_.communicator, [&] {
      error = write_rest(stopped);
      const CheckpointRole lost = save_again ? missing() : CheckpointRole{};
      const bool possible = best_ || lost.resumable || lost.best;
      next = {!error.empty() && possible && last.wait_to_retry(error), lost.resumable, lost.best};
    });
    context_.communicator.broadcast(std::span<bool>(next), 0);
    if (next[0] && (next[1] || next[2])) save_again({.resumable = next[1], .best = next[2]});
  } while (next[0]);
  comm::run_on_root(context_.communicator, [&] {
    const std::string failed = events_.failures() > 1
                                   ? format("{} writes of events and checkpoints failed", events_.failures())
                                   : "";
    if (!error.empty())
      throw CausedError(FailureCode::disk, failed.empty() ? error : format("{} ({})", error, failed));
    if (!failed.empty()) context_.log.warn("{}", failed);
  });
}

}  // namespace vaecf::checkpoint
