#include "train/step/trainer.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/comm/parameter_server/channel.hpp>

#include <algorithm>
#include <thread>

namespace vaecf::train {
namespace {

/// Returns the number of threads that sample the next epoch; 1 on CPUs, whose cores are busy with the steps.
int sampling_threads(const Run& run) {
  if (run.engine.facts().device == device::DeviceChoice::cpu) return 1;
  const int cores = cores_within(cpu_limit(), static_cast<int>(std::thread::hardware_concurrency()));
  return std::clamp(cores / run.communicator.local_size(), 1, 4);
}

/// Returns the range of the virtual shards of this rank's group; empty if the rank is a server of the
/// parameter server.
Range owned_shards(const Run& run, const data::VirtualShards& shards) {
  if (run.slices() > 1) return shards.owned_shards(run.group(), run.groups());
  const comm::Communicator& communicator = run.communicator;
  const comm::Roles roles(run.options.distributed, communicator.size());
  if (!roles.is_worker(communicator.rank())) return {};
  return shards.owned_shards(communicator.rank(), roles.workers);
}

}  // namespace

Trainer::Trainer(const Run& run, std::int64_t min_model_rows)
    : run_(run),
      grid_(run.grid ? run.grid : std::make_shared<const comm::RankGrid>(run.communicator)),
      shards_(run.dataset.rows("train"), run.options.data.virtual_shards),
      owned_(owned_shards(run, shards_)),
      sampler_(shards_, owned_, run.options.train.batch_size, run.options.train.last_batch == LastBatch::keep,
               run.options.train.seed),
      sampling_threads_(sampling_threads(run)),
      groups_(model::passes_of_epoch(run.options.model)),
      annealing_(run.options.train.annealing, sampler_.steps_per_epoch()) {
  run_.engine.start_training({run.options, *grid_, run.dataset, shards_.rows_of(owned_),
                              std::max(min_model_rows, sampler_.max_local_rows())});
}

Trainer::~Trainer() {
  if (upload_.valid()) upload_.wait();
  run_.engine.end_training();
}

void Trainer::upload(std::int64_t pass) {
  run_.engine.upload_pass(sampler_.sample(pass, sampling_threads_));
}

void Trainer::start_pass(std::int64_t pass) {
  if (pass == pass_) return;
  if (upload_.valid()) upload_.get();
  if (pass != next_pass_) upload(pass);
  run_.engine.start_pass();
  pass_ = pass;
  next_pass_ = pass + 1;
  upload_ = std::async(std::launch::async, [this] { upload(next_pass_); });
}

void Trainer::start_epoch(std::int64_t epoch, std::int64_t t) {
  start_pass(epoch * passes() + t / sampler_.steps_per_epoch());
  epoch_ = epoch;
  if (t > 0) return set_losses({});
  run_.engine.start_epoch();
}

std::int64_t Trainer::users_before(std::int64_t t) const {
  const std::int64_t steps = sampler_.steps_per_epoch();
  return t / steps * sampler_.users_per_epoch() + t % steps * run_.options.train.batch_size;
}

std::vector<std::int64_t> Trainer::updates_by_group() const {
  const std::int64_t steps = sampler_.steps_per_epoch();
  const std::int64_t epochs = updates_done_ / steps_per_epoch();
  const std::int64_t done = updates_done_ % steps_per_epoch();
  std::vector<std::int64_t> updates(static_cast<std::size_t>(*std::ranges::max_element(groups_)) + 1);
  for (std::int64_t pass = 0; pass < passes(); ++pass) {
    updates[static_cast<std::size_t>(groups_[static_cast<std::size_t>(pass)])] +=
        epochs * steps + std::clamp<std::int64_t>(done - pass * steps, 0, steps);
  }
  return updates;
}

UpdatedGroup Trainer::next_group() const {
  const std::int64_t pass = updates_done_ / sampler_.steps_per_epoch() % passes();
  const int group = groups_[static_cast<std::size_t>(pass)];
  return {group, updates_by_group()[static_cast<std::size_t>(group)]};
}

double Trainer::beta() const {
  if (model::facts_of(run_.options.model.type).alternates) return run_.options.model.recvae.beta;
  return annealing_.beta(updates_done_, users_seen_);
}

void Trainer::restore_progress(std::int64_t updates_done, std::int64_t users_seen, device::LossScale scale) {
  updates_done_ = updates_done;
  users_seen_ = users_seen;
  if (scale.scale > 0.0F) run_.engine.set_sums({{}, scale});
}

void Trainer::step(std::int64_t t) {
  run_.communicator.activity().begin_step(updates_done_);
  const std::int64_t steps = sampler_.steps_per_epoch();
  start_pass(epoch_ * passes() + t / steps);
  const std::int64_t batch = t % steps;
  const std::int64_t batch_users = sampler_.batch_users(batch);
  const device::StepParams params{run_.options.train.seed,
                                  static_cast<std::uint32_t>(updates_done_),
                                  batch,
                                  static_cast<float>(beta()),
                                  {}};
  if (const auto sums = run_.engine.step(params, batch_users, next_group())) require_finite_loss(*sums);
  ++updates_done_;
  users_seen_ += batch_users;
}

device::LossSums Trainer::losses() {
  const device::LossSums sums = run_.engine.sums().losses;
  require_finite_loss(sums);
  return sums;
}

void Trainer::require_finite_loss(const device::LossSums& sums) const {
  if (sums.nonfinite_step < 0) return;
  const std::string kl =
      model::facts_of(run_.options.model.type).has_kl ? format(", kl {}", sums.nonfinite_kl) : std::string();
  throw RunError(format(
      "the loss is not finite at step {} on rank {} (nll {}{}), since the weights have diverged; "
      "lower train.optimizer.learning_rate (now {:g}) or use a higher precision (existing checkpoints are kept)",
      sums.nonfinite_step + 1, run_.communicator.rank(), sums.nonfinite_nll, kl,
      run_.options.optimizer.learning_rate));
}

void add_phase_intervals(Timeline& timeline, const std::vector<model::PhaseInterval>& intervals,
                         std::int64_t updates_before) {
  for (const model::PhaseInterval& interval : intervals) {
    timeline.add({model::step_phase_names[static_cast<std::size_t>(interval.phase)], Track::compute,
                  timeline.at(interval.begin), timeline.at(interval.end), "step",
                  updates_before + interval.step + 1});
  }
}

}  // namespace vaecf::train
