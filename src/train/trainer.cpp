#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/train/trainer.hpp>

#include "overlap.hpp"
#include "parameter_server/step.hpp"
#include "shard_rows.hpp"
#include "updater.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

namespace vaecf::train {
namespace {

std::unique_ptr<ShardRows> read_shard(const io::DatasetFile& dataset, const std::string& matrix, Range rows,
                                      std::int64_t width, backend::Backend& backend) {
  if (width == 0) return nullptr;
  return std::make_unique<ShardRows>(backend, dataset.read_rows(matrix, rows), rows.begin, width);
}

/// Threads that draw the next epoch. On a CPU the cores are busy with the steps.
int drawing_threads(const Services& services) {
  if (services.backend.device() == "cpu") return 1;
  const int cores =
      static_cast<int>(std::thread::hardware_concurrency()) / services.communicator.local_size();
  return std::clamp(cores, 1, 4);
}

bool is_served(const SessionOptions& options) {
  return options.distributed.strategy == "parameter_server";
}

}  // namespace

Trainer::Trainer(const SessionOptions& options, const Services& services, const io::DatasetFile& dataset,
                 std::int64_t min_model_rows)
    : options_(options),
      services_(services),
      shards_(dataset.rows("train"), options.data.virtual_shards),
      owned_(is_served(options)
                 ? ParameterServerStep::owned_shards(options, services.communicator, shards_)
                 : shards_.owned_shards(services.communicator.rank(), services.communicator.size())),
      order_(shards_, owned_, options.train.batch_size, options.train.last_batch == "keep",
             options.train.seed),
      items_(read_shard(dataset, "train", shards_.rows_of(owned_), dataset.items(), services.backend)),
      features_(read_shard(dataset, "train/features", shards_.rows_of(owned_),
                           model_inputs(options, dataset).features, services.backend)),
      step_(services.backend.make_step_state()),
      model_(options.model, model_inputs(options, dataset), services.backend,
             std::max(min_model_rows, order_.max_local_rows()),
             is_served(options) ? ParameterServerStep::size_multiple(options)
                                : size_multiple(services.communicator)),
      updater_(is_served(options) ? nullptr : make_updater(options, services, model_)),
      annealing_(options.train.annealing, order_.steps_per_epoch()),
      overlap_(std::make_unique<OverlapChoice>(is_served(options) ? "off" : options.distributed.overlap,
                                               services.communicator)),
      clock_(services.backend, false) {
  model_.initialise(options.train.seed);
  if (is_served(options)) {
    served_ = std::make_unique<ParameterServerStep>(options, services, model_, *items_, features_.get());
  } else {
    updater_->take_weights();
  }
  // Where ranks exchange something that no recording can hold, or rows come from the host at each step,
  // nobody records.
  const bool resident = items_->held().resident() && (!features_ || features_->held().resident());
  const bool can_record = resident && (alone() || services.communicator.recordable());
  records_ = services.communicator.all_reduce(std::int64_t{can_record ? 1 : 0}, comm::Reduction::min) == 1;
}

Trainer::~Trainer() = default;

void Trainer::take_times(bool on) {
  takes_times_ = on;
  may_have_moved_ = true;
  clock_ = model::StepClock(services_.backend, on);
}

void Trainer::start_epoch(std::int64_t epoch) {
  if (drawn_.epoch != epoch && next_.valid()) drawn_ = next_.get();
  const int threads = drawing_threads(services_);
  if (drawn_.epoch != epoch) drawn_ = order_.draw(epoch, threads);
  items_->set_order(drawn_.rows, drawn_.begin);
  if (features_) features_->set_order(drawn_.rows, drawn_.begin);
  services_.backend.clear_losses(*step_);
  may_have_moved_ = true;
  if (next_.valid()) return;  // the epoch was taken up before
  next_ = std::async(std::launch::async,
                     [this, next = epoch + 1, threads] { return order_.draw(next, threads); });
}

model::Model& Trainer::model() {
  may_have_moved_ = true;
  if (served_) served_->sync_weights();
  return model_;
}

WireBytes Trainer::wire_bytes() const {
  return served_ ? served_->wire_bytes() : updater_->wire_bytes();
}

bool Trainer::works() const {
  return !served_ || served_->is_worker();
}

std::optional<Staleness> Trainer::take_staleness() {
  return served_ ? served_->take_staleness() : std::nullopt;
}

const backend::FloatBuffer& Trainer::gradient() const {
  return served_ ? served_->gradients() : updater_->gradients();
}

const backend::FloatBuffer& Trainer::flat(FlatState state) {
  may_have_moved_ = true;
  return served_ ? served_->flat(state) : updater_->flat(state);
}

void Trainer::set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) {
  if (served_) return served_->set_flat(state, fill);
  updater_->set_flat(state, fill);
}

void Trainer::go_on(std::int64_t updates_done, std::int64_t users_seen, backend::LossScale scale) {
  updates_done_ = updates_done;
  users_seen_ = users_seen;
  if (scale.scale > 0.0F) services_.backend.set_loss_scale(scale, *step_);
  // Before the first update all ranks compute with the weights as they were drawn.
  if (updates_done == 0) return;
  if (served_) return served_->round_weights();
  updater_->round_weights();
}

std::int64_t Trainer::shard_bytes() const {
  return items_->bytes() + (features_ ? features_->bytes() : 0);
}

std::string Trainer::shard_description() const {
  return items_->held().description();
}

double Trainer::update_bytes() const {
  if (served_) return served_->update_bytes();
  const int ranks = services_.communicator.size();
  const double parameters = static_cast<double>(model_.layout().parameter_count());
  const double own = options_.distributed.optimizer == "sharded" ? parameters / ranks : parameters;
  const bool narrow = services_.backend.precision() == backend::Precision::bf16 ||
                      services_.backend.precision() == backend::Precision::fp16;
  constexpr double in_and_out = 2.0 * sizeof(float);
  return own * 3.0 * in_and_out + parameters * (fuses() ? 0.0 : in_and_out) +
         (narrow ? 2.0 * parameters : 0.0);
}

bool Trainer::overlaps() const {
  return overlap_->use();
}

bool Trainer::fuses() const {
  return alone() && services_.backend.fuses_updates() && options_.train.clip_gradient_norm == 0.0;
}

backend::StepNumbers Trainer::numbers(std::int64_t t) const {
  return {options_.train.seed, static_cast<std::uint32_t>(updates_done_), t, static_cast<float>(beta()), {}};
}

void Trainer::begin_step(std::int64_t t, backend::StepState& step) {
  clock_.start();
  backend::StepNumbers now = numbers(t);
  now.rule = updater_->optimizer().rule(updates_done_, order_.batch_users(t));
  services_.backend.begin_step(now, step);
}

void Trainer::compute_gradient(backend::StepState& step, std::int64_t users,
                               const backend::FusedUpdate* fused) {
  const backend::GradientReady ready = updater_->begin(overlap_->use());
  const backend::Batch& items = items_->gather(step, users);
  const backend::Batch* features = features_ ? &features_->gather(step, users) : nullptr;
  model_.forward_backward({items, features}, step, updater_->gradients(), ready, clock_, fused);
}

void Trainer::run_step(std::int64_t users) {
  const backend::FusedUpdate fused = updater_->fused_update();
  compute_gradient(*step_, users, fuses() ? &fused : nullptr);
  const auto layers = model_.fused_layers();
  updater_->update(*step_, clock_,
                   fuses() ? std::span<const backend::Layer>(layers) : std::span<const backend::Layer>{});
  services_.backend.end_step(*step_);
  clock_.lap(&model::StepSeconds::update);
}

void Trainer::record_or_run_step(std::int64_t t) {
  const std::int64_t users = items_->users(t);
  if (!records_ || takes_times_ || !overlap_->decided()) return run_step(users);
  if (may_have_moved_) agree_on_recordings();
  // Ranks record together, and replay together: the reductions in a recording are those of all ranks'
  // recordings of the same step (NCCL's rule). A batch of so many users that starts at this virtual shard
  // gives each rank the same number of them every time.
  const std::int64_t begin = alone() ? 0 : t * options_.train.batch_size % options_.data.virtual_shards;
  auto& recording = recordings_[{begin, alone() ? users : order_.batch_users(t)}];
  if (recording && services_.backend.replay(*recording)) return;
  recording = services_.backend.record([this, users] { run_step(users); });
  records_ = recording != nullptr;
  may_have_moved_ = true;
}

void Trainer::agree_on_recordings() {
  may_have_moved_ = false;
  if (alone()) return;  // one that does not fit is made again
  const bool moved = std::ranges::any_of(
      recordings_, [&](const auto& entry) { return !services_.backend.fits(*entry.second); });
  if (services_.communicator.all_reduce(std::int64_t{moved ? 1 : 0}, comm::Reduction::max) == 0) return;
  recordings_.clear();
}

backend::LossSums Trainer::accumulate(std::int64_t t) {
  const auto step = services_.backend.make_step_state();
  if (served_) {
    served_->accumulate(numbers(t), order_.batch_users(t), *step, clock_);
  } else {
    begin_step(t, *step);
    compute_gradient(*step, items_->users(t), nullptr);
    updater_->sum(*step);
    services_.backend.end_step(*step);
  }
  const backend::LossSums sums = services_.backend.read_losses(*step);
  require_numbers(sums);
  return sums;
}

void Trainer::step(std::int64_t t) {
  const auto begin = std::chrono::steady_clock::now();
  services_.communicator.activity().begin_step(updates_done_);
  if (served_) {
    served_->run(numbers(t), order_.batch_users(t), *step_, clock_);
  } else {
    begin_step(t, *step_);
    record_or_run_step(t);
  }
  if (const auto sums = services_.backend.poll_losses(*step_)) require_numbers(*sums);

  ++updates_done_;
  users_seen_ += order_.batch_users(t);
  if (!overlap_->decided()) {
    services_.backend.synchronize();
    overlap_->report(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (overlap_->decided()) services_.log.debug("{}", overlap_->description());
  }
}

backend::LossSums Trainer::losses() {
  const backend::LossSums sums = services_.backend.read_losses(*step_);
  require_numbers(sums);
  return sums;
}

void Trainer::require_numbers(const backend::LossSums& sums) const {
  if (sums.broken_step < 0) return;
  throw RunError(
      format("the loss is no longer a number at step {} on rank {} (nll {}, kl {}): the weights have "
             "grown without bound; lower train.optimizer.learning_rate ({:g} here), or look for a precision "
             "that is too narrow; the checkpoints of before are kept",
             sums.broken_step + 1, services_.communicator.rank(), sums.broken_nll, sums.broken_kl,
             options_.optimizer.learning_rate));
}

}  // namespace vaecf::train
