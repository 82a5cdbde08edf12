#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/start_point.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_map>

#include "checkpoint/known_users.hpp"
#include "checkpoint/tensor_rows.hpp"
#include "checkpoint/trained_on.hpp"

namespace vaecf::checkpoint {
namespace {

bool has_item_rows(const device::TensorSpec& spec) {
  return spec.kind == device::TensorKind::input_table && !spec.name.ends_with("/feature_weight");
}

bool has_item_columns(const device::TensorSpec& spec) {
  using device::TensorKind;
  return spec.kind == TensorKind::output_table || spec.kind == TensorKind::item_table ||
         spec.kind == TensorKind::output_bias;
}

/// Returns the shapes that a model with `items` items has instead of `specs`.
std::vector<device::TensorSpec> with_items(std::vector<device::TensorSpec> specs, std::int64_t items) {
  for (device::TensorSpec& spec : specs) {
    spec.rows = has_item_rows(spec) ? items : spec.logical_rows();
    spec.columns = has_item_columns(spec) ? items : spec.logical_columns();
    spec.item_slice.reset();
  }
  return specs;
}

bool is_same_dataset(const TrainingState& state, const io::DatasetFile& dataset) {
  return state.items == dataset.items() && state.dataset_checksum == dataset.fingerprint();
}

/// Returns the index of each item of `dataset` in the checkpoint; -1 for an item that it does not contain.
std::vector<std::int64_t> match_items(const io::DatasetFile& dataset, const std::string& path,
                                      const TrainingState& state, const io::CheckpointFile& file) {
  std::vector<std::int64_t> sources(dataset.items(), -1);
  if (is_same_dataset(state, dataset)) {
    std::iota(sources.begin(), sources.end(), 0);
    return sources;
  }
  const io::IdList before = file.dataset().item_ids;
  const io::IdList now = io::ids_or_numbers(dataset, "items/id", dataset.items());
  std::unordered_map<std::string, std::int64_t> index;
  for (std::int64_t i = 0; i < before.size(); ++i) index.emplace(before.text(i), i);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto found = index.find(now.text(static_cast<std::int64_t>(i)));
    if (found != index.end()) sources[i] = found->second;
  }
  if (std::ranges::any_of(sources, [](std::int64_t source) { return source >= 0; })) return sources;
  throw InputError(
      format("{}: none of its {} items is in {}, for example {}; use a checkpoint with the same item ids",
             path, before.size(), dataset.path(), excerpt(before.text(0))));
}

}  // namespace

StartPoint::StartPoint(const Context& context, const models::ModelOptions& options,
                       const io::DatasetFile& dataset, const std::string& path)
    : context_(context), dataset_(dataset), path_(path), checkpoint_(path, context) {
  checkpoint_.read_file([&](const io::CheckpointFile& file) {
    const TrainingState& state = checkpoint_.state();
    if (const auto type = file.attribute<std::string>("model_type"); type != vaecf::to_string(options.type)) {
      throw InputError(format(
          "{}: the checkpoint contains a model of type {}, but model.type is {}; set model.type to {}, or train from scratch",
          path, excerpt(type), vaecf::to_string(options.type), excerpt(type)));
    }
    require_same_features(path, state, options, dataset);
    const auto specs = models::tensor_specs(options, models::input_dims(options, dataset));
    check_shapes(path, file, with_items(specs, state.items), "weights");
    sources_ = match_items(dataset, path, state, file);
  });
}

void StartPoint::load_weights(training::Trainer& trainer) {
  models::Model& model = trainer.model();
  const std::vector<device::TensorSpec> specs = model.tensors();
  const std::vector<device::TensorSpec> stored = with_items(specs, checkpoint_.state().items);
  comm::Communicator& communicator = context_.communicator;
  std::vector<float> before;
  // A value that the checkpoint does not contain; the weights of checkpoints are finite.
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  // Sets the values of logical rows `rows` of tensor `t` to those of the checkpoint, or none. For rank 0
  // only.
  const auto look_up = [&](std::size_t t, Range rows, std::span<float> values) {
    std::ranges::fill(values, none);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t source = has_item_rows(specs[t]) ? sources_[row] : row;
      if (source < 0) continue;
      const float* from = before.data() + source * stored[t].columns;
      float* to = values.data() + (row - rows.begin) * specs[t].logical_columns();
      for (std::int64_t column = 0; column < specs[t].logical_columns(); ++column) {
        const std::int64_t c = has_item_columns(specs[t]) ? sources_[column] : column;
        if (c >= 0) to[column] = from[c];
      }
    }
  };
  // Weights are not rounded to bf16, as those of a new run before its first update.
  trainer.write_state(training::StateTensor::weights, false, [&](const training::WriteRows& write) {
    std::vector<float> values;
    std::vector<float> mine;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      const auto tensor = static_cast<int>(t);
      checkpoint_.read_file([&](const io::CheckpointFile& file) {
        before.resize(stored[t].rows * stored[t].columns);
        file.read_rows(format("weights/{}", stored[t].name), 0, stored[t].rows, before);
      });
      for (std::int64_t begin = 0; begin < specs[t].logical_rows(); begin += block_rows(specs[t])) {
        const Range rows{begin, std::min(specs[t].logical_rows(), begin + block_rows(specs[t]))};
        values.resize(rows.size() * specs[t].logical_columns());
        if (communicator.rank() == 0) look_up(t, rows, values);
        communicator.broadcast(std::span<float>(values), 0);
        const StoredRows found = stored_rows(specs[t], rows, values);
        mine.resize(found.values.size());
        model.read_rows(tensor, found.rows, mine);
        for (std::size_t i = 0; i < mine.size(); ++i)
          if (!std::isnan(found.values[i])) mine[i] = found.values[i];
        write(tensor, found.rows, mine);
        communicator.activity().note_progress();
      }
    }
  });
  const std::int64_t added = std::ranges::count(sources_, -1);
  const std::int64_t mapped = std::ssize(sources_) - added;
  context_.log.info("starting from {}: weights of {} items; {} items are new, {} are gone", path_, mapped,
                    added, checkpoint_.state().items - mapped);
  checkpoint_.read_file([&](const io::CheckpointFile& file) {
    if (is_same_dataset(checkpoint_.state(), dataset_)) return;
    const bool weighted = file.attributes().contains("interaction_weights");
    if (weighted != dataset_.weighted()) {
      context_.log.warn(
          "{} was trained {} interaction weights, but {} has {}; metrics of the first epochs may be low, since the scale of the input has changed",
          path_, weighted ? "with" : "without", dataset_.path(), weighted ? "none" : "them");
    }
    const KnownUsers known = find_known_users(file, dataset_);
    if (known.by_chance) return;
    context_.log.warn(
        "{} was trained on {} validation and {} test users of {}, so that their metrics are too high; prepare both datasets with data.prepare.split: stable, and train again",
        path_, known.validation, known.test, dataset_.path());
  });
}

void validate_start(const Context& context, const models::ModelOptions& options,
                    const io::DatasetFile& dataset, const std::string& path) {
  if (models::is_solved(options.type)) {
    throw comm::on_all_ranks(InputError(format(
        "--start-from: a model of type {} is solved at once, so that nothing is to be started from; omit it",
        vaecf::to_string(options.type))));
  }
  StartPoint checkpoint(context, options, dataset, path);
}

}  // namespace vaecf::checkpoint
