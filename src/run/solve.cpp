
#include "run/solve.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/last_write.hpp>
#include <vaecf/checkpoint/resume_point.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/item/solvers.hpp>
#include <vaecf/run/events.hpp>

#include "run/past_events.hpp"
#include "run/selection.hpp"

namespace vaecf::run {
namespace {

std::vector<models::EaseValues> candidates_of(const config::TrainingConfig& options) {
  return models::facts_of(options.model.type).inverts ? models::combinations(options.model.ease)
                                                      : std::vector<models::EaseValues>(1);
}

bool is_complete(const config::TrainingConfig& options) {
  std::string reason;
  for (const io::Json& event : read_events(options))
    if (io::event_kind(event) == io::EventKind::end) reason = io::get_string(event, "reason");
  return reason == "solved";
}

/// Returns the number of solutions that need not be computed again: those up to the best one, whose state is
/// `best`, and those after it that the log contains and that are not better. If the log ends with a better
/// one, its checkpoint was not written.
std::int64_t kept_solutions(const config::TrainingConfig& options, checkpoint::TrainingState best) {
  const std::int64_t in_checkpoint = best.epoch;
  for (const io::Json& event : read_events(options)) {
    if (io::event_kind(event) != io::EventKind::solve || io::get_number(event, "step") <= in_checkpoint)
      continue;
    if (best.select != "last" && !event.contains(best.select)) break;
    best.epoch = static_cast<std::int64_t>(io::get_number(event, "step"));
    if (best.update_best(best.select == "last" ? 0.0 : io::get_number(event, best.select)))
      return best.epoch - 1;
  }
  return best.epoch;
}

/// One call of solve(). In the state, an epoch is a solution.
class SolveRun {
 public:
  explicit SolveRun(const Run& run)
      : run_(run),
        is_ease_(models::facts_of(run.options.model.type).inverts),
        candidates_(candidates_of(run.options)) {
    run.communicator.activity().enter(Phase::loading);
    if (validates(run)) evaluator_.emplace(run, run.dataset, "validation", run.options.validation.metrics);
    state_.describe(run, run.options, run.dataset, run.configuration_text, selection_of(run));
    comm::require_equal_on_all_ranks(run.communicator, state_.dataset_checksum,
                                     format("the dataset {}", run.options.data.file));
    state_.gather_sums({}, run.communicator);
    start_or_resume();
  }

  TrainResult run() {
    const auto begin = Clock::now();
    if (!complete_) search();
    const bool stopped = run_.any_rank_asked_to_stop();
    if (stopped)
      run_.log.info("stopped on request after {} of {} solutions; --resume auto continues", state_.epoch,
                    candidates_.size());
    return {state_.epoch,       state_.updates_done,  state_.best_epoch,
            state_.best_metric, seconds_since(begin), stopped,
            complete_};
  }

 private:
  /// Opens the log: new, or that of the run that this one continues.
  void start_or_resume() {
    const bool continues = !run_.resume_from.empty();
    if (continues) {
      const checkpoint::TrainingState before = checkpoint::CheckpointReader(run_.resume_from, run_).state();
      complete_ = comm::query_root(run_.communicator, [&] { return is_complete(run_.options); });
      std::int64_t kept = before.epoch;
      comm::run_on_root(run_.communicator, [&] { kept = kept_solutions(run_.options, before); });
      run_.communicator.broadcast(std::span(&kept, 1), 0);
      state_.updates_done = state_.epoch = kept;
      state_.best_epoch = before.best_epoch;
      state_.best_metric = before.best_metric;
      run_.log.info("{} contains {}", run_.resume_from,
                    complete_ ? "the solution; --resume never solves it again"
                              : format("the best of {} solutions so far", kept));
    }
    comm::run_on_root(run_.communicator, [&] {
      if (complete_) return;
      if (continues) checkpoint::rewind_run_folder(run_.options, run_.log, state_.epoch, state_.updates_done);
      events_.emplace(run_, run_.options, run_.configuration_text, checkpoint::RunLog::Mode::train);
    });
    if (!events_)
      events_.emplace(run_, run_.options, run_.configuration_text, checkpoint::RunLog::Mode::append);
  }

  void search() {
    const auto begin = Clock::now();
    const std::int64_t items = run_.dataset.items();
    const std::int64_t neighbors = neighbors_of(run_.options.model.type, run_.options.model);
    const std::int64_t weights = neighbors > 0 ? std::min(items, neighbors) : items;  // of an item
    events_->write(start_event(run_, run_.dataset.rows("train"), items, items * weights));
    run_.log.info("{}: {} train users, {} items, {}, {} ranks, {}", excerpt(run_.options.name),
                  run_.dataset.rows("train"), items, vaecf::to_string(run_.options.model.type),
                  run_.communicator.size(), solutions_text(run_, state_.epoch));
    const models::Interactions train = models::read_interactions(run_, run_.dataset);
    while (state_.epoch < std::ssize(candidates_) && !run_.any_rank_asked_to_stop())
      if (!solve_next(train)) break;
    const bool all = state_.epoch == std::ssize(candidates_);
    io::Event end(io::EventKind::end);
    end.set("reason", std::string(all ? "solved" : "stopped"))
        .set("epoch", state_.epoch)
        .set("best_epoch", state_.best_epoch);
    if (state_.select != "last") end.set("best_metric", state_.best_metric);
    events_->write(end.set("seconds", seconds_since(begin)));
    comm::run_on_root(run_.communicator, [&] { events_->finish(); });
  }

  /// Solves the combination `values`, unless it follows from the last solution. Returns false if a request to
  /// stop ended the solution.
  [[nodiscard]] bool solve_model(const models::Interactions& train, const models::EaseValues& values,
                                 int threads) {
    if (!is_ease_) {
      model_ = std::make_shared<models::SparseWeights>(
          models::solve_item_knn(train, run_.options.model.item_knn, run_, threads));
      return true;
    }
    if (ease_ && solved_.same_inverse(values)) {
      ease_->set_columns(values.relax, values.kept_weight);
      return true;
    }
    model_.reset();  // so that the memory of one solution suffices
    ease_.reset();
    ease_ = models::solve_ease(train, values, run_, threads);
    model_ = ease_;
    solved_ = values;
    return ease_ != nullptr;
  }

  /// Solves and evaluates the next combination. Returns false if a request to stop ended the solution.
  [[nodiscard]] bool solve_next(const models::Interactions& train) {
    Activity& activity = run_.communicator.activity();
    const Timeline::Span span(activity.timeline(), Track::run, "solve");
    activity.enter(Phase::training);
    const models::EaseValues values = candidates_[state_.epoch];
    const int threads = models::item_model_threads(run_);
    const bool reused = ease_ != nullptr && solved_.same_inverse(values);
    auto begin = Clock::now();
    if (!solve_model(train, values, threads)) return false;
    const double seconds = seconds_since(begin);
    state_.updates_done = ++state_.epoch;

    io::Event event(io::EventKind::solve);
    event.set("step", state_.epoch);
    if (is_ease_) {
      for (const auto& [name, value] : values.named()) event.set(name, value);
      event.set("neighbors", values.neighbors);
    }
    event.set("seconds", seconds);
    std::string line = is_ease_ ? models::ease_title(values) : vaecf::to_string(run_.options.model.type);
    line += reused ? " with the same inverse" : format(" solved in {:.1f} s", seconds);
    double metric = 0.0;
    if (evaluator_) {
      activity.enter(Phase::validation);
      begin = Clock::now();
      const auto scorer = models::make_item_scorer(model_, run_.dataset.items(), run_);
      const evaluate::EvaluationResult result = evaluator_->evaluate(*scorer);
      const double evaluation_seconds = seconds_since(begin);
      event.set("evaluation_seconds", evaluation_seconds);
      add_evaluation(event, result);
      line += format(", evaluated in {:.2f} s  {}", evaluation_seconds, metrics_line(result));
      if (state_.select != "last") metric = result.metrics.at(state_.select).mean;
    }
    events_->write(event);
    const bool best = state_.update_best(metric);
    run_.log.info("{}{}", line, best && candidates_.size() > 1 ? "  best" : "");
    // After the event: if the process ends in between, the candidate is solved again.
    if (best) save(values);
    return true;
  }

  void save(const models::EaseValues& values) {
    run_.communicator.activity().enter(Phase::checkpoint);
    comm::run_on_root(run_.communicator, [&] {
      io::Attributes attributes = checkpoint::checkpoint_attributes(run_.options, state_);
      if (is_ease_) {
        for (const auto& [name, value] : values.named()) attributes[name] = value;
        attributes["neighbors"] = values.neighbors;
      }
      const models::StoredWeights weights = model_->stored();
      for (checkpoint::LastWrite last(run_, run_.options.run.retry_seconds);;) {
        try {
          return io::write_checkpoint(run_.options.best_checkpoint(), attributes, weights.tensors,
                                      weights.arrays, state_.dataset.get());
        } catch (const RunError& error) {
          if (!last.wait_to_retry(error.what())) throw;
        }
      }
    });
  }

  const Run& run_;
  bool is_ease_;
  std::vector<models::EaseValues> candidates_;
  std::optional<evaluate::Evaluator> evaluator_;
  checkpoint::TrainingState state_;
  std::optional<checkpoint::RunLog> events_;
  std::shared_ptr<models::EaseModel> ease_;         // the last solution of EASE
  models::EaseValues solved_;                       // its values
  std::shared_ptr<const models::ItemModel> model_;  // the last model
  bool complete_ = false;                           // best.h5 contains the best of all candidates
};

}  // namespace

std::int64_t neighbors_of(models::ModelType type, const models::ModelOptions& options) {
  return models::facts_of(type).inverts ? options.ease.neighbors : options.item_knn.neighbors;
}

std::string solutions_text(const Run& run, std::int64_t done) {
  const bool is_ease = models::facts_of(run.options.model.type).inverts;
  std::vector<models::EaseValues> left = candidates_of(run.options);
  left.erase(left.begin(), left.begin() + done);
  return format("{} {} and {} evaluations to compute", models::inverses_of(left),
                is_ease && run.options.model.ease.neighbors == 0 ? "inverses" : "solutions",
                validates(run) ? std::ssize(left) : 0);
}

double memory_to_solve(models::ModelType type, const Run& run) {
  const comm::Communicator& ranks = run.communicator;
  // Every rank has all weights and the train users twice. While it solves it has also its part of the matrix,
  // or its lists of neighbors, and as much again for the users. Weights double all of this.
  const auto items = static_cast<double>(run.dataset.items());
  const std::int64_t neighbors = neighbors_of(type, run.options.model);
  const bool inverts = models::facts_of(type).inverts;
  const bool is_sparse = !inverts || neighbors > 0;
  // Features are more rows of a copy. Each weight takes as much as the number of its user or item.
  const bool has_features = inverts && std::ranges::max(run.options.model.ease.feature_weight) > 0.0;
  const double interactions =
      (has_features ? 24.0 : 16.0) * (run.dataset.weighted() ? 2.0 : 1.0) *
      static_cast<double>(run.dataset.entries("train") + run.dataset.entries("items/features"));
  const double part = 1.0 / ranks.size();
  const auto sparse = [&](double entries) {
    const double lists = part * static_cast<double>(sizeof(models::NeighborList)) * items;
    return interactions + entries * (8.0 + std::max(8.0 * part, 4.0)) + lists;
  };
  const double dense = interactions + 4.0 * items * items * (ranks.size() == 1 ? 1.0 : 1.0 + part);
  const auto most = neighbors > 0 ? std::min(items, static_cast<double>(neighbors)) : items;
  const double bytes = ranks.local_size() * (is_sparse ? sparse(items * most) : dense);
  if (inverts || missing_memory(bytes) == 0.0) return bytes;
  // Few pairs of items have a user in common. They are counted only if it matters.
  const models::Interactions train = models::read_interactions(run, run.dataset);
  const int threads = models::item_model_threads(run);
  return ranks.local_size() *
         sparse(static_cast<double>(models::item_knn_entries(train, neighbors, threads)));
}

void require_memory_to_solve(models::ModelType type, const Run& run) {
  const double bytes = memory_to_solve(type, run);
  const double missing = missing_memory(bytes);
  if (missing == 0.0) return;
  const bool is_sparse = !models::facts_of(type).inverts || run.options.model.ease.neighbors > 0;
  throw memory_error(format("{}: {} of {} items on {} ranks", run.dataset.path(), vaecf::to_string(type),
                            run.dataset.items(), run.communicator.size()),
                     bytes, missing, is_sparse ? "fewer neighbors" : "model.ease.neighbors: 300");
}

void validate_solve(const Run& run) {
  const bool is_ease = models::facts_of(run.options.model.type).inverts;
  const models::EaseOptions& ease = run.options.model.ease;
  const char* obstacle = run.options.validation.select == "last" ? "validation.select is last"
                         : run.options.validation.every == 0     ? "validation.every is 0"
                         : !validates(run) ? "the dataset has no validation users with a target"
                                           : nullptr;
  if (is_ease && models::combinations(ease).size() > 1 && obstacle != nullptr) {
    throw InputError(
        format("model.ease: {} combinations of its values cannot be compared, since {}; "
               "set one value of each key",
               models::combinations(ease).size(), obstacle));
  }
  require_memory_to_solve(run.options.model.type, run);
}

bool continues_solutions(const Run& run) {
  if (!checkpoint::resumes_in_place(run, run.options, run.resume_from)) {
    throw comm::on_all_ranks(InputError(
        format("{}: models of type {} are solved at once, so that only a run in its own folder can continue; "
               "use --resume auto",
               run.resume_from, vaecf::to_string(run.options.model.type))));
  }
  const std::string before = checkpoint::CheckpointReader(run.resume_from, run).state().select;
  const std::string now = selection_of(run);
  if (before == now) return true;
  run.log.info("{} was selected by {}, not by {}, so that the model is solved again", run.resume_from, before,
               now);
  return false;
}

TrainResult solve(const Run& run) {
  return SolveRun(run).run();
}

}  // namespace vaecf::run
