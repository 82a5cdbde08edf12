#include "checkpoint_keeper.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/checkpoint.hpp>

#include "agreement.hpp"
#include "clock.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace vaecf::train {
namespace {

/// By how far training had come: their names count in epochs and in steps, and a copied folder has lost when
/// they were written.
std::vector<std::string> files_to_go_on_from(const std::string& folder, std::int64_t steps_per_epoch) {
  std::vector<std::pair<std::int64_t, std::string>> files;
  for (const io::CheckpointCandidate& file : io::list_checkpoints(folder)) {
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

CheckpointKeeper::CheckpointKeeper(const SessionOptions& options, const Services& services,
                                   const DatasetMark& dataset, std::int64_t steps_per_epoch, RunLog& events)
    : options_(options), services_(services), dataset_(dataset), events_(events) {
  if (services.communicator.rank() == 0)
    kept_ = files_to_go_on_from(options.checkpoint_folder(), steps_per_epoch);
}

CheckpointKeeper::~CheckpointKeeper() {
  if (writing_.valid()) writing_.wait();
}

void CheckpointKeeper::save(const RunState& state, Purpose purpose, Trainer& trainer) {
  Activity& activity = services_.communicator.activity();
  const Phase before = activity.report().phase;
  activity.enter(Phase::checkpoint);
  const auto& timeline = services_.communicator.activity().timeline();
  const Timeline::Span span(timeline, Track::run, "checkpoint", "step", state.updates_done);
  await();
  const auto begin = Clock::now();
  snapshot_.take(options_, services_, state, dataset_, trainer);
  if (purpose.go_on) last_step_ = state.updates_done;
  activity.enter(before);
  if (services_.communicator.rank() != 0) return;

  const std::string name = state.step_in_epoch == 0
                               ? io::checkpoint_name(io::CheckpointKind::epoch, state.epoch)
                               : io::checkpoint_name(io::CheckpointKind::step, state.updates_done);
  const std::string file =
      purpose.go_on ? options_.checkpoint_folder() + "/" + name : options_.best_checkpoint();
  job_ = {file, purpose, state.epoch, state.updates_done, seconds_since(begin), Clock::now(), timeline};
  writing_ = std::async(std::launch::async, [this, job = job_] { return write(job); });
}

CheckpointKeeper::Written CheckpointKeeper::write(const Job& job) {
  Written written;
  const Timeline::Span span(job.timeline, Track::writer, "writing a checkpoint", "step", job.step);
  try {
    snapshot_.write(job.file);
    if (job.purpose.go_on && job.purpose.best) written.best_error = name_best(job.file);
  } catch (const std::exception& error) {
    written.error = error.what();
  }
  written.seconds = seconds_since(job.begin);
  return written;
}

std::string CheckpointKeeper::name_best(const std::string& file) const {
  try {
    io::publish_alias(file, options_.best_checkpoint());
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void CheckpointKeeper::await() {
  if (writing_.valid()) settle(writing_.get());
}

void CheckpointKeeper::report() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) await();
}

void CheckpointKeeper::settle(const Written& written) {
  const std::string& error = written.error.empty() ? written.best_error : written.error;
  if (job_.purpose.go_on) go_on_error_ = written.error;
  if (job_.purpose.best) best_error_ = error;
  if (job_.purpose.go_on && written.error.empty()) {
    last_file_ = job_.file;
    std::erase(kept_, job_.file);
    kept_.push_back(job_.file);
    remove_older();
  }
  io::Event event(error.empty() ? "checkpoint" : "checkpoint_failed");
  event.set("epoch", job_.epoch)
      .set("step", job_.step)
      .set("file", job_.file)
      .set("best", job_.purpose.best)
      .set("copy_seconds", job_.copy_seconds)
      .set("seconds", written.seconds);
  if (error.empty()) {
    services_.log.debug("checkpoint {}: copied in {:.2f} s, written beside training in {:.2f} s", job_.file,
                        job_.copy_seconds, written.seconds);
  } else {
    ++failures_;
    services_.log.warn("checkpoint: {} (training goes on; {} failed so far)", error, failures_);
    event.set("error", error);
  }
  events_.write(event);
}

void CheckpointKeeper::remove_older() {
  while (static_cast<std::int64_t>(kept_.size()) > options_.run.keep) {
    std::error_code ignored;  // what cannot be removed does no harm
    std::filesystem::remove(kept_.front(), ignored);
    kept_.erase(kept_.begin());
  }
}

void CheckpointKeeper::finish(bool stopped) {
  on_root(services_.communicator, [&] {
    await();
    if (!best_error_.empty() && !stopped) {
      throw RunError(format("training is done, but best.h5 could not be written: {}", best_error_));
    }
    if (!go_on_error_.empty()) {
      throw RunError(format("{}, but its last checkpoint could not be written: {}",
                            stopped ? "training was stopped" : "training is done", go_on_error_));
    }
  });
}

}  // namespace vaecf::train
