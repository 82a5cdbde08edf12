#include "train/checkpoint/checkpoint_manager.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/checkpoint.hpp>

#include "train/run/collective_checks.hpp"
#include "train/run/host_info.hpp"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <new>
#include <span>
#include <system_error>
#include <utility>

namespace vaecf::train {
namespace {

/// Runs `work` and returns the message of its exception, or an empty string.
template <class Work>
std::string message_of_failure(const Work& work) {
  try {
    work();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

bool is_vector(const device::TensorSpec& spec) {
  return spec.kind == device::TensorKind::bias || spec.kind == device::TensorKind::output_bias;
}

bool all_finite(const std::vector<float>& values) {
  constexpr std::uint32_t infinity = 0x7F800000U;
  std::uint32_t largest = 0;  // the bits of magnitudes have the same order as the magnitudes
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
  }
  return largest < infinity;
}

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

void Snapshot::allocate(const std::vector<device::TensorSpec>& specs) {
  if (!tensors_.empty()) return;
  std::vector<Tensor> tensors;
  for (const auto& [which, group] : tensor_groups) {
    for (const device::TensorSpec& spec : specs) {
      tensors.push_back({format("{}/{}", group, spec.name), spec.rows, spec.columns, is_vector(spec),
                         std::vector<float>(static_cast<std::size_t>(spec.rows * spec.columns))});
    }
  }
  tensors_ = std::move(tensors);
}

void Snapshot::take(const TrainingConfig& options, const RunContext& context, const TrainingState& state,
                    Trainer& trainer) {
  const model::Model& model = trainer.model();
  run_on_root(context.communicator, [&] {
    attributes_ = to_attributes(options, state);
    try {
      allocate(model.tensors());
    } catch (const std::bad_alloc&) {
      throw RunError(
          "rank 0 has not enough memory for the copy of a checkpoint (three times the weights); use a smaller model, or a host with more memory");
    }
  });
  const std::size_t tensors = tensors_.size() / tensor_groups.size();  // 0 except on rank 0
  for (std::size_t group = 0; group < tensor_groups.size(); ++group) {
    const std::span<Tensor> mine(tensors_.data() + group * tensors, tensors);
    std::vector<std::span<float>> values;
    for (Tensor& tensor : mine) values.emplace_back(tensor.values);
    context.engine.read_state(tensor_groups[group].first, values);
    run_on_root(context.communicator, [&] {
      const auto broken =
          std::ranges::find_if_not(mine, [](const Tensor& tensor) { return all_finite(tensor.values); });
      if (broken == mine.end()) return;
      throw RunError(format(
          "{} contains values that are not finite, since the weights have diverged; no checkpoint is written, and the last one is kept; "
          "lower train.optimizer.learning_rate or use a higher precision",
          broken->name));
    });
  }
}

void Snapshot::write(const std::string& path) const {
  std::vector<io::TensorSource> sources;
  for (const Tensor& tensor : tensors_) {
    sources.push_back({tensor.name, tensor.rows, tensor.columns, tensor.vector,
                       [&tensor](std::int64_t begin, std::int64_t end, std::span<float> out) {
                         const auto from = tensor.values.begin() + begin * tensor.columns;
                         std::copy(from, from + (end - begin) * tensor.columns, out.begin());
                       }});
  }
  io::write_checkpoint(path, attributes_, sources);
}

CheckpointManager::CheckpointManager(const TrainingConfig& options, const RunContext& context,
                                     std::int64_t steps_per_epoch, RunLog& events)
    : options_(options), context_(context), events_(events) {
  if (context.communicator.rank() == 0)
    kept_ = resumable_checkpoints(options.checkpoint_folder(), steps_per_epoch);
}

CheckpointManager::~CheckpointManager() {
  if (writing_.valid()) writing_.wait();
}

void CheckpointManager::save(const TrainingState& state, CheckpointRole role, Trainer& trainer) {
  Activity& activity = context_.communicator.activity();
  const Phase before = activity.report().phase;
  activity.enter(Phase::checkpoint);
  const auto& timeline = context_.communicator.activity().timeline();
  const Timeline::Span span(timeline, Track::run, "checkpoint", "step", state.updates_done);
  wait();
  const auto begin = Clock::now();
  snapshot_.take(options_, context_, state, trainer);
  if (role.resumable) last_step_ = state.updates_done;
  activity.enter(before);
  if (context_.communicator.rank() != 0) return;

  const std::string name = state.step_in_epoch == 0
                               ? io::checkpoint_name(io::CheckpointKind::epoch, state.epoch)
                               : io::checkpoint_name(io::CheckpointKind::step, state.updates_done);
  const std::string file =
      role.resumable ? options_.checkpoint_folder() + "/" + name : options_.best_checkpoint();
  Write job{file, role, state.epoch, state.updates_done, seconds_since(begin)};
  writing_ = std::async(std::launch::async, [this, job, timeline, start = Clock::now()]() mutable {
    const Timeline::Span writer(timeline, Track::writer, "writing a checkpoint", "step", job.step);
    job.error = message_of_failure([&] { snapshot_.write(job.file); });
    if (job.error.empty() && job.role.resumable && job.role.best) {
      job.best_error = message_of_failure([&] { io::link_or_copy(job.file, options_.best_checkpoint()); });
    }
    job.seconds = seconds_since(start);
    return job;
  });
}

void CheckpointManager::wait() {
  if (writing_.valid()) on_write_finished(writing_.get());
}

void CheckpointManager::poll() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) wait();
}

void CheckpointManager::on_write_finished(const Write& done) {
  const std::string& error = done.error.empty() ? done.best_error : done.error;
  if (done.role.resumable) resumable_error_ = done.error;
  if (done.role.best) best_error_ = error;
  if (done.role.resumable && done.error.empty()) {
    last_file_ = done.file;
    std::erase(kept_, done.file);
    kept_.push_back(done.file);
    prune();
  }
  io::Event event(error.empty() ? "checkpoint" : "checkpoint_failed");
  event.set("epoch", done.epoch)
      .set("step", done.step)
      .set("file", done.file)
      .set("best", done.role.best)
      .set("copy_seconds", done.copy_seconds)
      .set("seconds", done.seconds);
  if (error.empty()) {
    context_.log.debug("checkpoint {}: copied in {:.2f} s, written in the background in {:.2f} s", done.file,
                       done.copy_seconds, done.seconds);
  } else {
    ++failures_;
    context_.log.warn("checkpoint: {} (training continues; {} failed so far)", error, failures_);
    event.set("error", error);
  }
  events_.write(event);
}

void CheckpointManager::prune() {
  while (static_cast<std::int64_t>(kept_.size()) > options_.run.keep) {
    std::error_code ignored;  // a file that cannot be removed is harmless
    std::filesystem::remove(kept_.front(), ignored);
    kept_.erase(kept_.begin());
  }
}

void CheckpointManager::finish(bool stopped) {
  run_on_root(context_.communicator, [&] {
    wait();
    if (!best_error_.empty() && !stopped) {
      throw RunError(format("training is done, but best.h5 could not be written: {}", best_error_));
    }
    if (!resumable_error_.empty()) {
      throw RunError(format("{}, but its last checkpoint could not be written: {}",
                            stopped ? "training was stopped" : "training is done", resumable_error_));
    }
  });
}

}  // namespace vaecf::train
