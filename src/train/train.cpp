#include <vaecf/base/format.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>

#include "agreement.hpp"
#include "checkpointing.hpp"
#include "run_log.hpp"
#include "selection.hpp"

namespace vaecf::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One call of train(): decides when to do what.
class TrainingRun {
 public:
  TrainingRun(const SessionOptions& options, const Services& services)
      : options_(options),
        services_(services),
        dataset_(options.data.file),
        fingerprint_(dataset_.fingerprint()),
        validates_(options.validation.every > 0 && dataset_.rows("validation/fold_in") > 0),
        selects_(validates_ && options.validation.select != "last"),
        selection_(options.train.patience) {
    require_same(services.communicator, fingerprint_, format("the dataset {}", options.data.file));
    on_root(services.communicator, [&] { events_.emplace(options, services, RunLog::Mode::fresh); });
    if (!events_) events_.emplace(options, services, RunLog::Mode::fresh);
    if (validates_) {
      evaluator_.emplace(dataset_, "validation", evaluated_metrics(options.validation), services);
    }
    trainer_.emplace(options, services, dataset_, validates_ ? evaluation_batch : 0);
  }

  TrainResult run() {
    const auto begin = Clock::now();
    announce();
    std::int64_t epoch = 0;
    while (epoch < options_.train.epochs && !selection_.over()) {
      ++epoch;
      const std::string line = run_epoch(epoch);
      const bool last = epoch == options_.train.epochs;
      if (validates_ && (last || epoch % options_.validation.every == 0)) {
        validate(epoch, line);
      } else {
        services_.log.info("{}", line);
      }
    }
    if (!selects_) {
      selection_.better(epoch, 0.0);
      keep(epoch);
    }
    if (selection_.over()) {
      services_.log.info("stopped: no better {} for {} validations; the best was epoch {}",
                         options_.validation.select, options_.train.patience, selection_.best_epoch());
    }
    const double seconds = seconds_since(begin);
    events_->write(io::Event("end")
                       .set("reason", std::string(selection_.over() ? "patience" : "epochs"))
                       .set("epoch", epoch)
                       .set("step", trainer_->updates_done())
                       .set("best_epoch", selection_.best_epoch())
                       .set("best_metric", selection_.best_metric())
                       .set("seconds", seconds));
    return {epoch, trainer_->updates_done(), selection_.best_epoch(), selection_.best_metric(), seconds};
  }

 private:
  void announce() {
    const std::int64_t parameters = trainer_->model().layout().parameter_count();
    events_->write(start_event(options_, services_, dataset_.rows("train"), dataset_.items(), parameters));
    services_.log.info("{}: {} train users, {} items, {} parameters, {} ranks, {} epochs of {} steps",
                       options_.name, dataset_.rows("train"), dataset_.items(), parameters,
                       services_.communicator.size(), options_.train.epochs, trainer_->steps_per_epoch());
    if (const std::string shard = trainer_->shard_description(); !shard.empty()) {
      services_.log.info("{}", shard);
    }
    if (options_.validation.every > 0 && !validates_) {
      services_.log.warn("{} holds no validation users: the last epoch will count as the best one",
                         options_.data.file);
    }
    const std::int64_t updates = options_.train.epochs * trainer_->steps_per_epoch();
    const std::int64_t users = options_.train.epochs * trainer_->users_per_epoch();
    const Annealing& annealing = trainer_->annealing();
    if (trainer_->model().shape().variational && !annealing.reaches_cap(updates, users)) {
      services_.log.warn(
          "the planned {} updates ({} users) end before the KL weight reaches its cap of {}: beta will get "
          "to {:.4g}; "
          "the amount in train.annealing may have been meant for another batch size or more epochs",
          updates, users, annealing.cap(),
          annealing.beta(std::max<std::int64_t>(0, updates - 1),
                         users - trainer_->users_per_epoch() / trainer_->steps_per_epoch()));
    }
  }

  /// Trains one epoch and returns its line for the log.
  std::string run_epoch(std::int64_t epoch) {
    const auto begin = Clock::now();
    trainer_->start_epoch(epoch - 1);
    services_.progress.begin(format("epoch {}/{}", epoch, options_.train.epochs), trainer_->users_per_epoch(),
                             "users");
    const std::int64_t users_before = trainer_->users_seen();
    double beta = 0.0;
    for (std::int64_t t = 0; t < trainer_->steps_per_epoch(); ++t) {
      beta = trainer_->beta();
      trainer_->step(t);
      services_.progress.update(trainer_->users_seen() - users_before);
    }
    const backend::LossSums totals = trainer_->losses();
    services_.progress.end();
    const double seconds = seconds_since(begin);

    std::array<double, 4> sums = {totals.nll, totals.kl, totals.weighted_kl,
                                  static_cast<double>(totals.users)};
    services_.communicator.all_reduce(std::span<double>(sums));
    const double users = std::max(1.0, sums[3]);  // in fp16 every step may have been skipped
    const double nll = sums[0] / users;
    const double kl = sums[1] / users;
    // The decay term is that of the weights at the end of the epoch: one pass over them, not one a step.
    const double decay = options_.train.weight_decay > 0.0
                             ? options_.train.weight_decay * trainer_->model().sum_of_squares()
                             : 0.0;
    const double loss = nll + sums[2] / users + decay;
    const double rate = static_cast<double>(trainer_->users_seen() - users_before) / seconds;
    io::Event event("epoch");
    event.set("epoch", epoch)
        .set("step", trainer_->updates_done())
        .set("loss", loss)
        .set("nll", nll)
        .set("kl", kl)
        .set("beta", beta)
        .set("seconds", seconds)
        .set("users_per_second", rate);
    std::string line = format("epoch {:>3}  loss {:.3f}  nll {:.3f}  kl {:.3f}  beta {:.4f}  {:.0f} users/s",
                              epoch, loss, nll, kl, beta, rate);
    if (services_.backend.precision() == backend::Precision::fp16) {
      const auto scale = static_cast<double>(trainer_->loss_scale().scale);
      event.set("skipped_steps", totals.skipped).set("loss_scale", scale);
      if (totals.skipped > 0) line += format("  {} steps skipped, loss scale {}", totals.skipped, scale);
    }
    events_->write(event);
    return line;
  }

  void validate(std::int64_t epoch, const std::string& epoch_line) {
    const auto begin = Clock::now();
    const EvaluationResult result = evaluator_->evaluate(trainer_->model());
    io::Event event("validation");
    event.set("epoch", epoch)
        .set("step", trainer_->updates_done())
        .set("users", result.users)
        .set("users_without_target", result.users_without_target);
    add_metrics(event, result);
    event.set("seconds", seconds_since(begin));
    events_->write(event);

    const bool best =
        selects_ && selection_.better(epoch, result.metrics.at(options_.validation.select).mean);
    services_.log.info("{}  {}{}", epoch_line, metrics_line(result), best ? "  best" : "");
    if (best) keep(epoch);
  }

  void keep(std::int64_t epoch) {
    const auto begin = Clock::now();
    const RunState state{trainer_->updates_done(),
                         epoch,
                         0,
                         trainer_->users_seen(),
                         selection_.best_metric(),
                         selection_.best_epoch(),
                         selection_.waited(),
                         trainer_->loss_scale()};
    save_checkpoint(options_.best_checkpoint(), options_, services_, state, fingerprint_, *trainer_);
    events_->write(io::Event("checkpoint")
                       .set("epoch", epoch)
                       .set("step", trainer_->updates_done())
                       .set("file", options_.best_checkpoint())
                       .set("seconds", seconds_since(begin)));
  }

  const SessionOptions& options_;
  Services services_;
  io::DatasetFile dataset_;
  std::string fingerprint_;
  bool validates_;
  bool selects_;
  Selection selection_;
  std::optional<RunLog> events_;
  std::optional<Evaluator> evaluator_;
  std::optional<Trainer> trainer_;
};

}  // namespace

TrainResult train(const SessionOptions& options, const Services& services) {
  return TrainingRun(options, services).run();
}

}  // namespace vaecf::train
