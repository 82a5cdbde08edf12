
#include "run/solve.hpp"

#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/last_write.hpp>
#include <vaecf/checkpoint/resume_point.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/events.hpp>

#include "run/memory.hpp"
#include "run/past_events.hpp"
#include "run/selection.hpp"

namespace vaecf::run {
namespace {

const models::SolvedKind& kind_of_run(const Run& run) {
  return *models::kind_of(run.options.model.type).solved();
}

bool is_complete(const checkpoint::RunFolder& folder) {
  std::string reason;
  for (const io::Json& event : read_events(folder))
    if (io::event_kind(event) == io::EventKind::end) reason = io::get_string(event, "reason");
  return reason == "solved";
}

/// Returns the number of solutions that need not be computed again: those up to the best one, whose state is
/// `best`, and those after it that the log contains and that are not better. If the log ends with a better
/// one, its checkpoint was not written.
std::int64_t kept_solutions(const checkpoint::RunFolder& folder, checkpoint::TrainingState best) {
  const std::int64_t in_checkpoint = best.epoch;
  for (const io::Json& event : read_events(folder)) {
    const double solution = io::get_number(event, "solution");
    if (io::event_kind(event) != io::EventKind::solve || solution <= in_checkpoint) continue;
    const std::optional<double> metric = best.select == "last" ? 0.0 : metric_in(event, best.select);
    if (!metric) break;
    best.epoch = static_cast<std::int64_t>(solution);
    if (best.update_best(*metric)) return best.epoch - 1;
  }
  return best.epoch;
}

/// Returns the best solution up to each of the first `count` ones, as the log has them.
std::vector<std::int64_t> best_of_log(const checkpoint::RunFolder& folder, const std::string& select,
                                      std::int64_t count) {
  checkpoint::TrainingState best;
  best.select = select;
  std::vector<std::int64_t> all(static_cast<std::size_t>(count), 0);
  for (const io::Json& event : read_events(folder)) {
    const auto solution = static_cast<std::int64_t>(io::get_number(event, "solution"));
    if (io::event_kind(event) != io::EventKind::solve || solution < 1 || solution > count) continue;
    best.epoch = solution;
    best.update_best(select == "last" ? 0.0 : metric_in(event, select).value_or(0.0));
    all[static_cast<std::size_t>(solution - 1)] = best.best_epoch - 1;
  }
  return all;
}

std::unique_ptr<models::Search> search_of(const Run& run) {
  return kind_of_run(run).search(run.options.model, models::SolvedKind::Purpose::run,
                                 selection_of(run) != "last");
}

/// One call of solve(). In the state, an epoch is a solution.
class SolveRun {
 public:
  explicit SolveRun(const Run& run) : run_(run), search_(search_of(run)) {
    run.communicator.activity().enter(Phase::loading);
    if (validates(run)) evaluator_.emplace(run, run.dataset, "validation", run.options.validation.metrics);
    state_.describe(run, run.options.model, run.dataset, run.configuration_text, selection_of(run));
    state_.gather_sums({}, run.communicator);
    start_or_resume();
  }

  TrainResult run() {
    const auto begin = Clock::now();
    if (!complete_) search();
    const bool stopped = run_.any_rank_asked_to_stop();
    if (stopped)
      run_.log.info("stopped on request after {} of {} solutions; --resume auto continues", state_.epoch,
                    search_->size());
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
      complete_ = comm::query_root(run_.communicator, [&] { return is_complete(run_.folder()); });
      std::int64_t kept = before.epoch;
      comm::run_on_root(run_.communicator, [&] { kept = kept_solutions(run_.folder(), before); });
      run_.communicator.broadcast(std::span(&kept, 1), 0);
      state_.updates_done = state_.epoch = kept;
      state_.best_epoch = before.best_epoch;
      state_.best_metric = before.best_metric;
      std::vector<std::int64_t> best(static_cast<std::size_t>(kept));
      comm::run_on_root(run_.communicator, [&] { best = best_of_log(run_.folder(), before.select, kept); });
      run_.communicator.broadcast(std::span(best), 0);
      for (const std::int64_t n : best) search_->note_best(n);
      run_.log.info("{} contains {}", run_.resume_from,
                    complete_ ? "the solution; --resume never solves it again"
                              : format("the best of {} solutions so far", kept));
    }
    comm::run_on_root(run_.communicator, [&] {
      if (complete_) return;
      if (continues)
        checkpoint::rewind_run_folder(run_.folder(), run_.log, state_.epoch, state_.updates_done);
      events_.emplace(run_, run_.folder(), checkpoint::RunLog::Mode::train);
    });
    if (!events_) events_.emplace(run_, run_.folder(), checkpoint::RunLog::Mode::append);
  }

  void search() {
    const auto begin = Clock::now();
    const std::int64_t items = run_.dataset.items();
    events_->write(start_event(run_));
    run_.log.info("{}: {} train users, {} items, {}, {} ranks, {}", excerpt(run_.options.name),
                  run_.dataset.rows("train"), items, vaecf::to_string(run_.options.model.type),
                  run_.communicator.size(), solutions_text(run_, state_.epoch));
    const models::Interactions train = models::read_interactions(run_, run_.dataset);
    while (state_.epoch < search_->size() && !run_.any_rank_asked_to_stop())
      if (!solve_next(train)) break;
    const bool all = state_.epoch == search_->size();
    io::Event end(io::EventKind::end);
    end.set("reason", std::string(all ? "solved" : "stopped"))
        .set("solution", state_.epoch)
        .set("best_solution", state_.best_epoch);
    if (state_.select != "last") end.set("best_metric", state_.best_metric);
    events_->write(end.set("seconds", seconds_since(begin)));
    comm::run_on_root(run_.communicator, [&] { events_->finish(); });
  }

  /// Solves and evaluates the next combination, or those that are solved together. Returns false if a request
  /// to stop ended the solution.
  [[nodiscard]] bool solve_next(const models::Interactions& train) {
    Activity& activity = run_.communicator.activity();
    const Timeline::Span span(activity.timeline(), Track::run, "solve");
    activity.enter(Phase::training);
    const std::int64_t first = state_.epoch;
    const std::int64_t count = search_->together(first);
    const int threads = models::item_model_threads(run_);
    std::string reused = search_->reused(first);
    auto begin = Clock::now();
    model_.reset();  // so that the memory of one solution suffices
    model_ = search_->solve_together(first, train, run_, threads);
    if (!model_) return false;
    double seconds = seconds_since(begin);
    std::vector<evaluate::EvaluationResult> results;
    double evaluation_seconds = 0.0;  // of each solution
    if (evaluator_) {
      activity.enter(Phase::validation);
      begin = Clock::now();
      const auto scorer = models::make_item_scorer(model_, run_.dataset.items(), run_);
      results = evaluator_->evaluate_variants(*scorer);
      evaluation_seconds = seconds_since(begin) / static_cast<double>(count);
    }
    std::int64_t best = -1;
    for (std::int64_t n = first; n < first + count; ++n) {
      state_.updates_done = ++state_.epoch;
      io::Event event(io::EventKind::solve);
      event.set("solution", state_.epoch)
          .set("settings", settings_of(search_->values(n)))
          .set("seconds", seconds);
      std::string line = search_->title(n);
      line += reused.empty() ? format(" solved in {:.1f} s", seconds) : " " + reused;
      double metric = 0.0;
      if (evaluator_) {
        const evaluate::EvaluationResult& result = results[static_cast<std::size_t>(n - first)];
        event.set("evaluation_seconds", evaluation_seconds);
        add_evaluation(event, result);
        line += format(", evaluated in {:.2f} s  {}", evaluation_seconds, metrics_line(result));
        if (state_.select != "last") metric = result.metrics.at(state_.select).mean;
      }
      events_->write(event);
      const bool better = state_.update_best(metric);
      if (better) search_->note_best(best = n);
      run_.log.info("{}{}", line, better && search_->size() > 1 ? "  best" : "");
      seconds = 0.0;
      if (n + 1 < first + count) reused = search_->reused(n + 1);
    }
    if (best < 0) return true;
    if (count > 1) model_ = search_->solve(best, train, run_, threads);
    // After the events: if the process ends in between, the candidates are solved again.
    save(best);
    return true;
  }

  void save(std::int64_t n) {
    run_.communicator.activity().enter(Phase::checkpoint);
    comm::run_on_root(run_.communicator, [&] {
      checkpoint::TrainingState state = state_;  // of the time after solution n
      state.epoch = state.updates_done = n + 1;
      state.validations_since_best = 0;
      io::Attributes attributes = checkpoint::checkpoint_attributes(run_.options, state);
      for (const auto& [name, value] : search_->values(n)) attributes[name] = value;
      const models::StoredWeights weights = model_->stored();
      for (checkpoint::LastWrite last(run_, run_.options.run.retry_seconds);;) {
        try {
          return io::write_checkpoint(run_.folder().best(), attributes, weights.tensors, weights.arrays,
                                      state_.dataset.get());
        } catch (const RunError& error) {
          if (!last.wait_to_retry(error.what())) throw;
        }
      }
    });
  }

  const Run& run_;
  std::unique_ptr<models::Search> search_;
  std::optional<evaluate::Evaluator> evaluator_;
  checkpoint::TrainingState state_;
  std::optional<checkpoint::RunLog> events_;
  std::shared_ptr<const models::ItemModel> model_;  // the last solution
  bool complete_ = false;                           // best.h5 contains the best of all solutions
};

}  // namespace

std::string solutions_text(const Run& run, std::int64_t done) {
  const auto search = search_of(run);
  return format("{} {} and {} evaluations to compute", search->computed(done), search->unit(),
                validates(run) ? search->size() - done : 0);
}

void validate_solve(const Run& run) {
  const models::SolvedKind& kind = kind_of_run(run);
  const std::int64_t solutions = search_of(run)->size();
  const char* obstacle = run.options.validation.select == "last" ? "validation.select is last"
                         : run.options.validation.every == 0     ? "validation.every is 0"
                         : !validates(run) ? "the dataset has no validation users with a target"
                                           : nullptr;
  if (solutions > 1 && obstacle != nullptr) {
    throw InputError(
        format("model.type {}: {} combinations of the values of its keys cannot be compared, since {}; "
               "set one value of each key",
               kind.name(), solutions, obstacle));
  }
  require_memory_to_solve(kind, run);
}

bool continues_solutions(const Run& run) {
  if (!checkpoint::resumes_in_place(run, run.folder())) {
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
