#include <vaecf/base/text.hpp>
#include <vaecf/checkpoint/checkpoint_manager.hpp>
#include <vaecf/checkpoint/resume_point.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/checkpoint/start_point.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/events.hpp>

#include "run/selection.hpp"
#include "run/solve.hpp"
#include "run/step_coordinator.hpp"

namespace vaecf::run {
namespace {

constexpr std::int64_t steps_per_phase_record = 64;

/// Returns the minimum number of steps between synchronizations. Asynchronous workers must not synchronize at
/// every step, so that they can run ahead of each other.
std::int64_t min_sync_interval(const comm::DistributedOptions& distributed) {
  const bool free = distributed.strategy == comm::StrategyKind::parameter_server &&
                    distributed.updates == comm::ServerUpdates::asynchronous;
  return free ? 2 * (distributed.staleness + 1) : 1;
}

/// One call of train(): runs epochs, validation and checkpoints.
class TrainingRun {
 public:
  explicit TrainingRun(const Run& run)
      : run_(run),
        validates_(validates(run)),
        coordinator_(run.options.run, run, min_sync_interval(run.options.distributed)) {
    const Timeline::Span span(timeline(), Track::run, "loading");
    run.communicator.activity().enter(Phase::loading);
    state_.describe(run, run.options.model, run.dataset, run.configuration_text, selection_of(run));
    if (validates_) evaluator_.emplace(run, run.dataset, "validation", run.options.validation.metrics);
    trainer_.emplace(run, run.options, run.dataset, validates_ ? run.device.facts().evaluation_batch : 0);
    if (evaluator_) evaluator_->prepare(trainer_->model());
    start_or_resume();
  }

  TrainResult run() {
    const auto begin = Clock::now();
    announce();
    bool stopped = false;
    while (state_.epoch < run_.options.train.epochs && !patience_exhausted()) {
      stopped = !run_steps();
      if (stopped) break;
      end_epoch();
    }
    if (!stopped) {
      stopped = run_.any_rank_asked_to_stop();
      finish_training(stopped);
    }
    run_.communicator.activity().enter(Phase::checkpoint);
    std::function<void(checkpoint::CheckpointRole)> save_again;
    if (state_.updates_done == trainer_->updates_done())
      save_again = [&](checkpoint::CheckpointRole role) { save(role); };
    checkpoint_manager_->finish(stopped, save_again);
    const double seconds = seconds_since(begin);
    const bool over = patience_exhausted() && state_.epoch < run_.options.train.epochs;
    io::Event end(io::EventKind::end);
    end.set("reason", std::string(stopped ? "stopped"
                                  : over  ? "patience"
                                          : "epochs"))
        .set("epoch", state_.epoch)
        .set("step", trainer_->updates_done())
        .set("best_epoch", state_.best_epoch);
    if (selects() && state_.best_epoch > 0) end.set("best_metric", state_.best_metric);
    events_->write(end.set("seconds", seconds));
    comm::run_on_root(run_.communicator, [&] { events_->finish(); });
    if (stopped) {
      const std::string& file = checkpoint_manager_->last_file();
      run_.log.info("stopped on request after {} steps; --resume auto continues from {}",
                    trainer_->updates_done(), file.empty() ? run_.resume_from : file);
    }
    return {state_.epoch, trainer_->updates_done(), state_.best_epoch, state_.best_metric, seconds, stopped};
  }

 private:
  /// Restores the checkpoint to resume from, or the weights to start from, if any, and opens the log, rewound
  /// to the checkpoint or new.
  void start_or_resume() {
    const bool resumes = !run_.resume_from.empty();
    const bool in_place = resumes && checkpoint::resumes_in_place(run_, run_.folder());
    if (resumes) {
      checkpoint::CheckpointReader checkpoint(run_.resume_from, run_);
      checkpoint.restore(*trainer_);
      const auto summary = state_.dataset;
      state_ = checkpoint.state();
      state_.dataset = summary;
    } else if (!run_.start_from.empty()) {
      checkpoint::StartPoint(run_, run_.options.model, run_.dataset, run_.start_from).load_weights(*trainer_);
    }
    comm::run_on_root(run_.communicator, [&] {
      if (in_place) checkpoint::rewind_run_folder(run_.folder(), run_.log, state_.epoch, state_.updates_done);
      events_.emplace(run_, run_.folder(), checkpoint::RunLog::Mode::train);
    });
    if (!events_) events_.emplace(run_, run_.folder(), checkpoint::RunLog::Mode::append);
    if (resumes) {
      checkpoint::reconcile_best_checkpoint(run_, run_.folder(), selection_of(run_), state_);
      state_.describe(run_, run_.options.model, run_.dataset, run_.configuration_text, selection_of(run_));
      if (!selects()) state_.reset_best();
      if (in_place) resumed_at_ = state_.updates_done;
      coordinator_.saved(state_.updates_done);
      enter_epoch();
    }
    checkpoint_manager_.emplace(run_, run_.folder(), trainer_->steps_per_epoch(), *events_);
    if (timeline()) trainer_->enable_timing(true);
    timed_updates_ = trainer_->updates_done();
  }

  bool selects() const { return state_.select != "last"; }
  bool patience_exhausted() const {
    return run_.options.train.patience > 0 && state_.validations_since_best >= run_.options.train.patience;
  }

  const std::shared_ptr<Timeline>& timeline() const { return run_.communicator.activity().timeline(); }

  void enter_epoch() {
    trainer_->start_epoch(state_.epoch, state_.step_in_epoch);
    const comm::Communicator& ranks = run_.communicator;
    if (state_.step_in_epoch > 0) trainer_->set_losses(state_.sums_of(ranks.rank(), ranks.size()));
  }

  void announce() {
    const models::InputDims inputs = models::input_dims(run_.options.model, run_.dataset);
    events_->write(start_event(run_));
    run_.log.info("{}: {} train users, {} items, {}{} parameters, {} ranks, {} epochs of {} steps",
                  excerpt(run_.options.name), run_.dataset.rows("train"), inputs.items,
                  inputs.features > 0 ? format("{} features of users, ", inputs.features) : "",
                  parameter_count(run_), run_.communicator.size(), run_.options.train.epochs,
                  trainer_->steps_per_epoch());
    if (const std::string data = trainer_->facts().data_description; !data.empty()) run_.log.info("{}", data);
    if (run_.communicator.size() > 1)
      run_.log.info("communication per step: {}", format_comm_volume(trainer_->facts().comm_volume));
    if (run_.options.validation.every > 0 && !validates_) {
      const bool none = run_.dataset.rows("validation/fold_in") == 0;
      run_.log.warn("{} has no validation users{}: the last epoch will count as the best one",
                    run_.options.data.file, none ? "" : " that have a held-out item");
    }
    if (!run_.resume_from.empty()) {
      events_->write(io::Event(io::EventKind::resume)
                         .set("file", run_.resume_from)
                         .set("epoch", state_.epoch)
                         .set("step", trainer_->updates_done()));
      run_.log.info("resuming from {}: {} epochs and {} steps are done", run_.resume_from, state_.epoch,
                    state_.step_in_epoch);
    }
    const std::int64_t updates = run_.options.train.epochs * trainer_->steps_per_epoch();
    const std::int64_t users = run_.options.train.epochs * trainer_->users_per_epoch();
    const std::int64_t last_batch = trainer_->users_of_last_step();
    const training::Annealing& annealing = trainer_->annealing();
    if (kind_.kl_term() == models::TrainedKind::KlTerm::annealed && annealing.automatic_epochs() == 0.0 &&
        !annealing.reaches_cap(updates, users - last_batch)) {
      run_.log.warn(
          "training ends after {} updates ({} users), before KL annealing reaches its cap of {}; beta will only reach {:.4g}; "
          "check train.annealing against batch size and number of epochs",
          updates, users, annealing.cap(),
          annealing.beta(std::max<std::int64_t>(0, updates - 1), users - last_batch));
    }
  }

  /// Runs the remaining steps of the current epoch. Returns false if a stop was requested.
  [[nodiscard]] bool run_steps() {
    const Timeline::Span span(timeline(), Track::run, "steps", "epoch", state_.epoch + 1);
    run_.communicator.activity().enter(Phase::training);
    epoch_begin_ = Clock::now();
    enter_epoch();
    const std::int64_t steps = trainer_->steps_per_epoch();
    const std::int64_t users_before = trainer_->users_seen() - trainer_->users_before(state_.step_in_epoch);
    users_here_ = trainer_->users_seen();
    run_.progress.begin(format("epoch {}/{}", state_.epoch + 1, run_.options.train.epochs),
                        trainer_->users_per_epoch(), "users", users_here_ - users_before);
    for (std::int64_t t = state_.step_in_epoch; t < steps; ++t) {
      const auto decision = coordinator_.decide(trainer_->updates_done(), t == state_.step_in_epoch);
      checkpoint_manager_->poll();
      if (decision.checkpoint || decision.stop) save_resumable(t);
      if (decision.stop) {
        run_.progress.end();
        record_phase_intervals();
        return false;
      }
      last_beta_ = trainer_->beta();
      trainer_->step(t);
      if (trainer_->updates_done() - timed_updates_ >= steps_per_phase_record) record_phase_intervals();
      run_.progress.update(trainer_->users_seen() - users_before);
    }
    record_phase_intervals();
    return true;
  }

  /// Adds the phases of the steps since the last call to the timeline. Blocks until these steps have
  /// finished.
  void record_phase_intervals() {
    if (!timeline()) return;
    training::add_phase_intervals(*timeline(), trainer_->take_phase_intervals(), timed_updates_);
    timed_updates_ = trainer_->updates_done();
  }

  void end_epoch() {
    ++state_.epoch;
    state_.step_in_epoch = 0;
    if (state_.epoch == 1) {
      for (const std::string& product : run_.device.facts().products) run_.log.debug("product {}", product);
    }
    const std::string line = report_epoch();
    const bool last = state_.epoch == run_.options.train.epochs;
    bool best = false;
    if (validates_ && (last || state_.epoch % run_.options.validation.every == 0)) {
      best = validate(line);
    } else {
      run_.log.info("{}", line);
    }
    if (last && !selects()) best = state_.update_best(0.0);
    const std::int64_t every = run_.options.run.checkpoint_every.epochs;
    const bool due = (last && writes_resumable()) || (every > 0 && state_.epoch % every == 0) ||
                     (every == config::CheckpointEvery::automatic && checkpoint_manager_->due());
    if (due || best) save({.resumable = due, .best = best});
  }

  /// Writes a checkpoint of the end of training, unless one exists, if the run writes checkpoints at all or
  /// was stopped. It allows training more epochs, also after early stopping.
  void finish_training(bool stopped) {
    if (patience_exhausted()) {
      run_.log.info("early stopping: no better {} for {} validations; the best epoch was {}",
                    run_.options.validation.select, run_.options.train.patience, state_.best_epoch);
    }
    const bool needs_best = state_.best_epoch == 0;  // it was lost, and no further validation followed
    if (needs_best) {
      state_.select = "last";
      state_.update_best(0.0);
    }
    const bool needs_last = (writes_resumable() || stopped) &&
                            checkpoint_manager_->last_step() != trainer_->updates_done() &&
                            resumed_at_ != trainer_->updates_done();
    if (needs_best || needs_last) save({.resumable = needs_last, .best = needs_best});
  }

  bool writes_resumable() const {
    const config::CheckpointEvery& every = run_.options.run.checkpoint_every;
    return every.epochs != 0 || every.steps > 0 || every.minutes > 0.0;
  }

  std::string report_epoch() {
    const device::LossSums totals = trainer_->losses();
    run_.progress.end();
    const double seconds = seconds_since(epoch_begin_);

    std::array<double, 4> sums = {totals.nll, totals.kl, totals.weighted_kl,
                                  static_cast<double>(totals.users)};
    run_.communicator.all_reduce(std::span<double>(sums));
    const double users = std::max(1.0, sums[3]);  // in fp16 every step may have been skipped
    const double nll = sums[0] / users;
    const double kl = sums[1] / users;
    // The decay term is that of the weights at the end of the epoch, which avoids a pass over them per step.
    const double decay = run_.options.train.weight_decay > 0.0
                             ? 0.5 * run_.options.train.weight_decay * trainer_->sum_of_squares()
                             : 0.0;
    const double loss = nll + sums[2] / users + decay;
    // With a KL weight per user, the event has the mean weight of a unit of KL.
    const double beta = kind_.kl_term() == models::TrainedKind::KlTerm::of_model && sums[1] > 0.0
                            ? sums[2] / sums[1]
                            : last_beta_;
    const double rate = static_cast<double>(trainer_->users_seen() - users_here_) / seconds;
    io::Event event(io::EventKind::epoch);
    event.set("epoch", state_.epoch).set("step", trainer_->updates_done()).set("loss", loss).set("nll", nll);
    std::string line = format("epoch {:>3}  loss {:.3f}  nll {:.3f}", state_.epoch, loss, nll);
    if (kind_.kl_term() != models::TrainedKind::KlTerm::none) {
      event.set("kl", kl).set("beta", beta);
      line += format("  kl {:.3f}  beta {:.4f}", kl, beta);
    }
    event.set("seconds", seconds).set("users_per_second", rate);
    line += format("  {:.0f} users/s", rate);
    if (run_.device.facts().precision == device::Precision::fp16) {
      const auto scale = static_cast<double>(trainer_->loss_scale().scale);
      event.set("skipped_steps", totals.skipped).set("loss_scale", scale);
      if (totals.skipped > 0) line += format("  {} steps skipped, loss scale {}", totals.skipped, scale);
    }
    if (run_.communicator.size() > 1) add_comm_volume(event, trainer_->facts().comm_volume);
    if (const auto staleness = trainer_->take_staleness()) {
      add_staleness(event, *staleness);
      line += format("  at most {} ahead", staleness->max_lead);
    }
    events_->write(event);
    return line;
  }

  /// Returns true if this epoch is the best so far.
  [[nodiscard]] bool validate(const std::string& epoch_line) {
    run_.communicator.activity().enter(Phase::validation);
    const Timeline::Span span(timeline(), Track::run, "validation", "epoch", state_.epoch);
    const auto begin = Clock::now();
    const evaluate::EvaluationResult result = evaluator_->evaluate(trainer_->model());
    io::Event event(io::EventKind::validation);
    event.set("epoch", state_.epoch).set("step", trainer_->updates_done());
    add_evaluation(event, result);
    event.set("seconds", seconds_since(begin));
    events_->write(event);

    const bool best = selects() && state_.update_best(result.metrics.at(run_.options.validation.select).mean);
    run_.log.info("{}  {}{}", epoch_line, metrics_line(result), best ? "  best" : "");
    return best;
  }

  /// Writes a checkpoint to resume from, before step `t` of the epoch.
  void save_resumable(std::int64_t t) {
    state_.step_in_epoch = t;
    if (checkpoint_manager_->last_step() != trainer_->updates_done()) save({.resumable = true});
  }

  void save(checkpoint::CheckpointRole role) {
    state_.updates_done = trainer_->updates_done();
    state_.users_seen = trainer_->users_seen();
    state_.annealing_epochs = trainer_->annealing().automatic_epochs();
    state_.loss_scale = 0.0;
    state_.loss_scale_good_steps = 0;
    if (run_.device.facts().precision == device::Precision::fp16) {
      const device::LossScale scale = trainer_->loss_scale();
      state_.loss_scale = static_cast<double>(scale.scale);
      state_.loss_scale_good_steps = scale.good_steps;
    }
    // losses() also throws if the loss of any step was not finite, before anything is written.
    const device::LossSums sums = trainer_->losses();
    state_.gather_sums(state_.step_in_epoch > 0 ? sums : device::LossSums{}, run_.communicator);
    checkpoint_manager_->save(state_, role, *trainer_);
    if (role.resumable) coordinator_.saved(state_.updates_done);
  }

  const Run& run_;
  const models::TrainedKind& kind_ = models::trained_kind_of(run_.options.model.type);
  bool validates_;
  checkpoint::TrainingState state_;  // updates, users and sums are those of the last checkpoint
  StepCoordinator coordinator_;
  std::optional<evaluate::Evaluator> evaluator_;
  std::optional<training::Trainer> trainer_;
  std::optional<checkpoint::RunLog> events_;
  std::optional<checkpoint::CheckpointManager> checkpoint_manager_;

  std::int64_t resumed_at_ = -1;  // step of the checkpoint, if it belongs to this run folder
  Clock::time_point epoch_begin_;
  std::int64_t users_here_ = 0;  // users seen when this process started or resumed the epoch
  double last_beta_ = 0.0;
  std::int64_t timed_updates_ = 0;  // number of updates in the timeline
};

}  // namespace

TrainResult train(const Run& run) {
  if (models::is_solved(run.options.model.type)) return solve(run);
  return TrainingRun(run).run();
}

}  // namespace vaecf::run
