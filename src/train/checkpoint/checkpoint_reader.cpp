#include "train/checkpoint/checkpoint_reader.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "train/run/collective_checks.hpp"
#include "train/run/run_log.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

namespace vaecf::train {
namespace {

constexpr std::int64_t block_elements = 1 << 20;

void check_shapes(const std::string& path, const io::CheckpointFile& file,
                  const std::vector<device::TensorSpec>& specs, const std::string& group) {
  const auto& infos = file.tensors();
  const std::string hint = format(
      "it contains a {} with hidden layers [{}] and latent {}; use the configuration it was trained with",
      file.attribute<std::string>("model_type"), file.attribute<std::string>("model_hidden"),
      file.attribute<std::int64_t>("model_latent"));
  for (const device::TensorSpec& spec : specs) {
    const std::string name = format("{}/{}", group, spec.name);
    const auto info = std::find_if(infos.begin(), infos.end(), [&](const auto& i) { return i.name == name; });
    if (info == infos.end()) {
      throw InputError(format("{}: /{} is missing, which the configured model needs; {}", path, name, hint));
    }
    if (info->rows != spec.rows || info->columns != spec.columns) {
      throw InputError(format("{}: /{} must have shape ({}, {}), got ({}, {}); {}", path, name, spec.rows,
                              spec.columns, info->rows, info->columns, hint));
    }
  }
  const auto tensors = std::count_if(infos.begin(), infos.end(),
                                     [&](const auto& i) { return i.name.starts_with(group + "/"); });
  if (tensors != static_cast<std::int64_t>(specs.size())) {
    throw InputError(
        format("{}: /{} must contain {} tensors, got {}; use the configuration it was trained with", path,
               group, specs.size(), tensors));
  }
}

/// Throws InputError unless the checkpoint was trained with the user features that the model of `options`
/// has.
void require_same_features(const std::string& path, const TrainingState& checkpoint,
                           const TrainingConfig& options, const io::DatasetFile& dataset) {
  const std::int64_t expected = model_input_dims(options, dataset).features;
  if (checkpoint.features == 0 && expected == 0) return;
  if (checkpoint.features == 0) {
    throw InputError(
        format("{}: it was trained without features of users, but {} has {}; "
               "set model.features to off, or train again",
               path, dataset.path(), expected));
  }
  if (expected == 0) {
    const bool off = dataset.features() > 0;
    throw InputError(format("{}: it was trained with {} features of users, but {}; {}", path,
                            checkpoint.features,
                            off ? "model.features is off" : format("{} has none", dataset.path()),
                            off ? "set it to auto" : "use the dataset it was trained on"));
  }
  const std::string hashing = feature_hashing_of(dataset);
  if (checkpoint.features == expected && checkpoint.feature_hashing == hashing) return;
  throw InputError(
      format("{}: it was trained with {} features of users, hashed by\n{}\nbut {} has {}, hashed by\n{}\n"
             "use the dataset it was trained on",
             path, checkpoint.features, checkpoint.feature_hashing, dataset.path(), expected, hashing));
}

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

/// A checkpoint to resume from, and its state.
struct ResumeCandidate {
  std::string path;
  TrainingState state;
};

/// Returns the newest valid checkpoint of the folder. File names order the checkpoints of a kind, so only the
/// newest of each kind is read. Damaged files are skipped with a warning. Throws InputError for a valid file
/// of another format version, since training from scratch instead would archive it.
std::optional<ResumeCandidate> newest_valid_checkpoint(const std::string& folder, Log& log) {
  std::array<std::optional<ResumeCandidate>, 3> newest;
  const auto candidates = io::list_checkpoints(folder);
  for (auto file = candidates.rbegin(); file != candidates.rend(); ++file) {
    auto& slot = newest[static_cast<std::size_t>(file->kind)];
    if (slot) continue;
    std::optional<io::CheckpointFile> whole;
    try {
      whole.emplace(file->path);
    } catch (const InputError& error) {
      log.warn("skipping unreadable checkpoint: {}", error.what());
      continue;
    }
    slot = {file->path, from_attributes(file->path, *whole)};
  }
  std::optional<ResumeCandidate> found;
  for (auto& point : newest) {
    if (point && (!found || point->state.updates_done > found->state.updates_done)) found = std::move(point);
  }
  return found;
}

ResumeCandidate read_checkpoint(const TrainingConfig& options, const std::string& path) {
  const std::string folder = options.checkpoint_folder();
  if (depth_in(folder + ".old", path) > 0 || depth_in(folder, path) > 1) {
    throw InputError(format(
        "{}: a new run deletes or archives checkpoints in this folder; move it to another folder first",
        path));
  }
  return {path, from_attributes(path, io::CheckpointFile(path))};
}

/// Returns the epoch of a checkpoint that was written at the end of an epoch; 0 if it was not, or is not
/// valid.
std::int64_t epoch_of(const std::string& path) {
  try {
    const io::CheckpointFile file(path);
    return file.attribute<std::int64_t>("step_in_epoch") == 0 ? file.attribute<std::int64_t>("epoch") : 0;
  } catch (const InputError&) {
    return 0;
  }
}

/// Returns whether best.h5 contains the best epoch of `state`, after restoring it from another checkpoint of
/// that epoch if possible. For rank 0 only.
bool best_exists(const TrainingConfig& options, const TrainingState& state) {
  if (epoch_of(options.best_checkpoint()) == state.best_epoch) return true;
  // The previous run may have ended after it wrote the checkpoint, but before it created best.h5.
  const std::string by_epoch =
      options.checkpoint_folder() + "/" + io::checkpoint_name(io::CheckpointKind::epoch, state.best_epoch);
  for (const std::string& file : {options.resume_from, by_epoch}) {
    if (epoch_of(file) != state.best_epoch) continue;
    io::link_or_copy(file, options.best_checkpoint());
    return true;
  }
  return false;
}

/// Throws InputError if the checkpoint at `path` was trained on another dataset.
void require_same_dataset(const std::string& path, const TrainingState& checkpoint,
                          const io::DatasetFile& dataset) {
  if (checkpoint.items != dataset.items()) {
    throw InputError(
        format("{}: it was trained on {} items, but {} has {}; use the dataset it was trained on", path,
               checkpoint.items, dataset.path(), dataset.items()));
  }
  if (checkpoint.dataset_checksum != dataset.fingerprint()) {
    throw InputError(
        format("{}: it was trained on the dataset with checksum {}, but that of {} is {}; "
               "use the dataset it was trained on",
               path, checkpoint.dataset_checksum, dataset.path(), dataset.fingerprint()));
  }
}

}  // namespace

model::InputDims model_input_dims(const TrainingConfig& options, const io::DatasetFile& dataset) {
  return {dataset.items(), options.model.features == model::FeaturesInput::off ? 0 : dataset.features()};
}

CheckpointReader::CheckpointReader(const std::string& path, const RunContext& context)
    : path_(path), context_(context) {
  run_on_root(context.communicator, [&] {
    file_.emplace(path);
    state_ = from_attributes(path, *file_);
  });
  broadcast(state_, context.communicator);
}

void CheckpointReader::require_trained_on(const TrainingConfig& options,
                                          const io::DatasetFile& dataset) const {
  require_same_features(path_, state_, options, dataset);
  require_same_dataset(path_, state_, dataset);
}

void CheckpointReader::read(const std::string& group, const std::vector<device::TensorSpec>& specs,
                            const WriteRows& write) {
  run_on_root(context_.communicator, [&] { check_shapes(path_, *file_, specs, group); });
  std::vector<float> values;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const device::TensorSpec& spec = specs[i];
    const std::int64_t block_rows = std::max<std::int64_t>(1, block_elements / spec.columns);
    for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
      const Range rows{begin, std::min(spec.rows, begin + block_rows)};
      values.resize(static_cast<std::size_t>(rows.size() * spec.columns));
      run_on_root(context_.communicator,
                  [&] { file_->read_rows(format("{}/{}", group, spec.name), rows.begin, rows.end, values); });
      context_.communicator.broadcast(std::span<float>(values), 0);
      write(static_cast<int>(i), rows, values);
      context_.communicator.activity().note_progress();
    }
  }
}

void CheckpointReader::load_weights(model::Model& model) {
  read("weights", model.tensors(), [&](int tensor, Range rows, std::span<const float> values) {
    model.write_rows(tensor, rows, values);
  });
  model.finish_writing();
}

void CheckpointReader::restore(Trainer& trainer) {
  const std::int64_t steps = trainer.steps_per_epoch();
  if (state_.step_in_epoch >= steps || state_.updates_done != state_.epoch * steps + state_.step_in_epoch) {
    throw InputError(
        format("{}: {} updates do not match {} epochs of {} steps plus {} steps; use another checkpoint",
               path_, state_.updates_done, state_.epoch, steps, state_.step_in_epoch));
  }
  // Before the first update, the initial weights are not rounded to bf16.
  const bool updated = state_.updates_done > 0;
  const std::vector<device::TensorSpec> specs = trainer.model().tensors();
  for (const auto& [part, group] : tensor_groups) {
    context_.engine.write_state(part, updated,
                                [&, name = group](const WriteRows& write) { read(name, specs, write); });
  }
  trainer.restore_progress(
      state_.updates_done, state_.users_seen,
      {static_cast<float>(state_.loss_scale), static_cast<std::int32_t>(state_.loss_scale_good_steps)});
}

std::optional<ResumePoint> find_resume_point(const TrainingConfig& options, const RunContext& context,
                                             const std::string& requested) {
  comm::Communicator& communicator = context.communicator;
  std::optional<ResumeCandidate> point;
  run_on_root(communicator, [&] {
    if (requested == "auto") {
      point = newest_valid_checkpoint(options.checkpoint_folder(), context.log);
    } else {
      point = read_checkpoint(options, requested);
    }
  });
  if (communicator.all_reduce(std::int64_t{point ? 1 : 0}, comm::Reduction::max) == 0) return std::nullopt;
  if (!point) point.emplace();
  point->path = communicator.broadcast_string(std::move(point->path), 0);
  broadcast(point->state, communicator);
  require_same_dataset(point->path, point->state, io::DatasetFile(options.data.file));
  return ResumePoint{point->path, point->state.configuration};
}

bool resumes_in_place(const TrainingConfig& options, comm::Communicator& communicator) {
  return query_root(communicator,
                    [&] { return depth_in(options.checkpoint_folder(), options.resume_from) == 1; });
}

void reconcile_best_checkpoint(const TrainingConfig& options, const RunContext& context,
                               const std::string& select, TrainingState& state) {
  if (state.best_epoch == 0) return;
  const bool there = query_root(context.communicator, [&] {
    std::string other;
    if (state.select != select) {
      other = format("validation.select has changed from \"{}\" to \"{}\"", state.select, select);
    } else if (!best_exists(options, state)) {
      other = format("{} does not contain epoch {}, the best so far", options.best_checkpoint(),
                     state.best_epoch);
    }
    if (other.empty()) return true;
    context.log.warn("{}; best-epoch tracking restarts here", other);
    const std::string best = options.best_checkpoint();
    if (std::filesystem::is_regular_file(best)) archive_checkpoint(options, best);
    return false;
  });
  if (!there) state.reset_best();
}

}  // namespace vaecf::train
