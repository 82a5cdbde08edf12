#include "train/item_models/solve.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/train/evaluator.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "train/checkpoint/resume_point.hpp"
#include "train/checkpoint/training_state.hpp"
#include "train/item_models/ease.hpp"
#include "train/item_models/ease_k.hpp"
#include "train/item_models/item_knn.hpp"
#include "train/item_models/item_scorer.hpp"
#include "train/run/collective_checks.hpp"
#include "train/run/host_info.hpp"
#include "train/run/run_log.hpp"

namespace vaecf::train {
namespace {

/// Returns whether solutions are evaluated on validation users.
bool can_validate(const TrainingConfig& options, const io::DatasetFile& dataset) {
  return options.validation.every > 0 && dataset.entries("validation/held_out") > 0;
}

/// Returns the metric that selects the best solution; "last" without validation.
std::string selection_of(const TrainingConfig& options, const io::DatasetFile& dataset) {
  return can_validate(options, dataset) ? options.validation.select : "last";
}

/// Returns the number of neighbors of an item in a model of `type`; 0: all items.
std::int64_t neighbors_of(const std::string& type, const model::ModelOptions& options) {
  return type == "ease" ? options.ease.neighbors : options.item_knn.neighbors;
}

/// Returns whether the log of the run ends with a completed search.
bool is_complete(const TrainingConfig& options) {
  const std::string log = options.run_folder() + "/metrics.jsonl";
  if (!std::filesystem::exists(log)) return false;
  std::string reason;
  for (const io::Json& event : io::read_json_lines(log))
    if (io::get_string(event, "event") == "end") reason = io::get_string(event, "reason");
  return reason == "solved";
}

/// One call of solve(). In the state, an epoch is a solution.
class SolveRun {
 public:
  SolveRun(const TrainingConfig& options, const RunContext& context)
      : options_(options),
        context_(context),
        dataset_(options.data.file),
        is_ease_(options.model.type == "ease"),
        candidates_(is_ease_ ? combinations(options.model.ease) : std::vector<EaseValues>(1)) {
    context.communicator.activity().enter(Phase::loading);
    if (can_validate(options, dataset_))
      evaluator_.emplace(dataset_, "validation", evaluated_metrics(options.validation), context);
    state_.describe(options, dataset_, selection_of(options, dataset_), context);
    require_equal_on_all_ranks(context.communicator, state_.dataset_checksum,
                               format("the dataset {}", options.data.file));
    state_.gather_sums({}, context.communicator);
    open_run_folder();
  }

  TrainResult run() {
    const auto begin = Clock::now();
    if (!complete_) search();
    const bool stopped = stop_requested();
    if (stopped)
      context_.log.info("stopped on request after {} of {} solutions; --resume auto continues", state_.epoch,
                        candidates_.size());
    return {state_.epoch,       state_.updates_done,  state_.best_epoch,
            state_.best_metric, seconds_since(begin), stopped,
            complete_};
  }

 private:
  /// Opens the log: new, or that of the run that this one continues.
  void open_run_folder() {
    const bool continues = !options_.resume_from.empty();
    if (continues) {
      const TrainingState before = CheckpointReader(options_.resume_from, context_).state();
      complete_ = query_root(context_.communicator, [&] { return is_complete(options_); });
      state_.updates_done = state_.epoch = before.epoch;
      state_.best_epoch = before.best_epoch;
      state_.best_metric = before.best_metric;
      context_.log.info("{} contains {}", options_.resume_from,
                        complete_ ? "the solution; --resume never solves it again"
                                  : format("the best of {} solutions so far", before.epoch));
    }
    run_on_root(context_.communicator, [&] {
      if (complete_) return;
      if (continues) rewind_run_folder(options_, state_.epoch, state_.updates_done, context_.log);
      events_.emplace(options_, context_, RunLog::Mode::train);
    });
    if (!events_) events_.emplace(options_, context_, RunLog::Mode::append);
  }

  /// Solves the remaining candidates.
  void search() {
    const auto begin = Clock::now();
    const std::int64_t items = dataset_.items();
    const std::int64_t neighbors = neighbors_of(options_.model.type, options_.model);
    const std::int64_t weights = neighbors > 0 ? std::min(items, neighbors) : items;  // of an item
    events_->write(start_event(options_, context_, dataset_.rows("train"), items, items * weights));
    context_.log.info("{}: {} train users, {} items, {}, {} ranks, {} to solve", excerpt(options_.name),
                      dataset_.rows("train"), items, options_.model.type, context_.communicator.size(),
                      candidates_.size());
    const Interactions train = read_interactions(dataset_, context_);
    while (state_.epoch < static_cast<std::int64_t>(candidates_.size()) && !stop_requested())
      solve_next(train);
    const bool all = state_.epoch == static_cast<std::int64_t>(candidates_.size());
    io::Event end("end");
    end.set("reason", std::string(all ? "solved" : "stopped"))
        .set("epoch", state_.epoch)
        .set("best_epoch", state_.best_epoch);
    if (state_.select != "last") end.set("best_metric", state_.best_metric);
    events_->write(end.set("seconds", seconds_since(begin)));
    run_on_root(context_.communicator, [&] { events_->finish(); });
  }

  void solve_next(const Interactions& train) {
    Activity& activity = context_.communicator.activity();
    const Timeline::Span span(activity.timeline(), Track::run, "solve");
    activity.enter(Phase::training);
    const EaseValues values = candidates_[static_cast<std::size_t>(state_.epoch)];
    const int threads = item_model_threads(context_);
    const auto begin = Clock::now();
    std::shared_ptr<const ItemModel> model;
    if (is_ease_)
      model = solve_ease(train, values, context_, threads);
    else
      model = std::make_shared<ItemKnn>(train, options_.model.item_knn, context_, threads);
    const double seconds = seconds_since(begin);
    state_.updates_done = ++state_.epoch;

    io::Event event("solve");
    event.set("step", state_.epoch);
    if (is_ease_) event.set("l2", values.l2).set("dropout", values.dropout);
    event.set("seconds", seconds);
    std::string line =
        format("{} solved in {:.1f} s", is_ease_ ? ease_title(values) : options_.model.type, seconds);
    double metric = 0.0;
    if (evaluator_) {
      activity.enter(Phase::validation);
      ItemScorer scorer(model, dataset_.items(), threads);
      const EvaluationResult result = evaluator_->evaluate(scorer);
      event.set("users", result.users).set("users_without_target", result.users_without_target);
      add_metrics(event, result);
      line += "  " + metrics_line(result);
      if (state_.select != "last") metric = result.metrics.at(state_.select).mean;
    }
    events_->write(event);
    const bool best = state_.update_best(metric);
    context_.log.info("{}{}", line, best && candidates_.size() > 1 ? "  best" : "");
    // After the event: if the process ends in between, the candidate is solved again.
    if (best) save(*model, values);
  }

  void save(const ItemModel& model, EaseValues values) {
    context_.communicator.activity().enter(Phase::checkpoint);
    run_on_root(context_.communicator, [&] {
      io::Attributes attributes = checkpoint_attributes(options_, state_);
      if (is_ease_) {
        attributes["l2"] = values.l2;
        attributes["dropout"] = values.dropout;
        attributes["neighbors"] = values.neighbors;
      }
      const StoredWeights weights = model.stored();
      io::write_checkpoint(options_.best_checkpoint(), attributes, weights.tensors, weights.arrays,
                           state_.dataset.get());
    });
  }

  bool stop_requested() {
    const std::int64_t mine = context_.stop != nullptr && context_.stop->requested() ? 1 : 0;
    return context_.communicator.all_reduce(mine, comm::Reduction::max) == 1;
  }

  const TrainingConfig& options_;
  RunContext context_;
  io::DatasetFile dataset_;
  bool is_ease_;
  std::vector<EaseValues> candidates_;
  std::optional<Evaluator> evaluator_;
  TrainingState state_;
  std::optional<RunLog> events_;
  bool complete_ = false;  // best.h5 contains the best of all candidates
};

}  // namespace

std::vector<EaseValues> combinations(const model::EaseOptions& options) {
  std::vector<EaseValues> all;
  for (const double l2 : options.l2)
    for (const double dropout : options.dropout) all.push_back({l2, dropout, options.neighbors});
  return all;
}

std::string ease_title(EaseValues values) {
  std::string title = values.neighbors > 0 ? format("EASE K {} l2 {:g}", values.neighbors, values.l2)
                                           : format("EASE l2 {:g}", values.l2);
  if (values.dropout > 0.0) title += format(" p {:g}", values.dropout);
  return title;
}

std::shared_ptr<const ItemModel> solve_ease(const Interactions& train, EaseValues values,
                                            const RunContext& context, int threads) {
  if (values.neighbors > 0)
    return std::make_shared<EaseK>(train, values.neighbors, values.l2, values.dropout, context, threads);
  return std::make_shared<Ease>(train, values.l2, values.dropout, context, threads);
}

double missing_memory(double bytes) {
  const HostMemory memory = host_memory();
  return memory.total > 0 ? std::max(0.0, bytes - static_cast<double>(memory.available)) : 0.0;
}

InputError memory_error(const std::string& what, double bytes, double missing, const std::string& advice) {
  constexpr double gib = 1073741824.0;
  return InputError(
      format("{} takes {:.1f} GiB per host, {:.1f} GiB more than are free; "
             "start fewer ranks per host, use larger hosts, or set {}",
             what, bytes / gib, missing / gib, advice));
}

double memory_to_solve(const std::string& type, const TrainingConfig& options, const RunContext& context,
                       const io::DatasetFile& dataset) {
  const comm::Communicator& ranks = context.communicator;
  // Every rank has all weights and the train users twice. While it solves it has also its part of the matrix,
  // or its lists of neighbors and another copy of the users.
  const auto items = static_cast<double>(dataset.items());
  const auto neighbors = std::min(items, static_cast<double>(neighbors_of(type, options.model)));
  const auto interactions = static_cast<double>(dataset.entries("train"));
  const double part = 1.0 / ranks.size();
  const double dense = 8.0 * interactions + 4.0 * items * items * (ranks.size() == 1 ? 1.0 : 1.0 + part);
  const double sparse = 16.0 * interactions + items * neighbors * (8.0 + 16.0 * part);
  return ranks.local_size() * (neighbors > 0.0 ? sparse : dense);
}

void require_memory_to_solve(const std::string& type, const TrainingConfig& options,
                             const RunContext& context, const io::DatasetFile& dataset) {
  const double bytes = memory_to_solve(type, options, context, dataset);
  const double missing = missing_memory(bytes);
  if (missing == 0.0) return;
  throw memory_error(format("{}: {} of {} items on {} ranks", dataset.path(), type, dataset.items(),
                            context.communicator.size()),
                     bytes, missing,
                     neighbors_of(type, options.model) > 0 ? "fewer neighbors" : "model.ease.neighbors: 300");
}

void validate_solve(const TrainingConfig& options, const RunContext& context,
                    const io::DatasetFile& dataset) {
  const bool is_ease = options.model.type == "ease";
  const model::EaseOptions& ease = options.model.ease;
  const char* obstacle = options.validation.select == "last" ? "validation.select is last"
                         : options.validation.every == 0     ? "validation.every is 0"
                         : !can_validate(options, dataset)
                             ? "the dataset has no validation users with a target"
                             : nullptr;
  if (is_ease && ease.l2.size() * ease.dropout.size() > 1 && obstacle != nullptr) {
    throw InputError(
        format("model.ease: {} values of l2 and {} of dropout cannot be compared, since {}; "
               "set one value of each",
               ease.l2.size(), ease.dropout.size(), obstacle));
  }
  require_memory_to_solve(options.model.type, options, context, dataset);
}

bool continues_solutions(const TrainingConfig& options, const RunContext& context) {
  if (!resumes_in_place(options, context.communicator)) {
    InputError error(
        format("{}: models of type {} are solved at once, so that only a run in its own folder can continue; "
               "use --resume auto",
               options.resume_from, options.model.type));
    error.mark_on_all_ranks();
    throw error;
  }
  const std::string before = CheckpointReader(options.resume_from, context).state().select;
  const std::string now = selection_of(options, io::DatasetFile(options.data.file));
  if (before == now) return true;
  context.log.info("{} was selected by {}, not by {}, so that the model is solved again", options.resume_from,
                   before, now);
  return false;
}

TrainResult solve(const TrainingConfig& options, const RunContext& context) {
  return SolveRun(options, context).run();
}

}  // namespace vaecf::train
