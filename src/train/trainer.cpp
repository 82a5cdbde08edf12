#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/train/trainer.hpp>

#include "parameter_server/step.hpp"
#include "shard_rows.hpp"
#include "step/step.hpp"

#include <algorithm>
#include <thread>

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

struct Trainer::Collective {
  Collective(const SessionOptions& options, const Services& services, model::Network& model, ShardRows& items,
             ShardRows* features, backend::StepState& state)
      : optimizer(options, services, model),
        graphs(services.backend, services.communicator),
        step(services.backend, model, items, features, optimizer, state, graphs) {}

  OptimizerState<backend::Backend> optimizer;
  StepGraphs<backend::Backend> graphs;
  Step<backend::Backend> step;
};

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
                                : comm::BucketPlan::unit * services.communicator.size()),
      annealing_(options.train.annealing, order_.steps_per_epoch()) {
  model_.initialise(options.train.seed);
  if (is_served(options)) {
    served_ = std::make_unique<ParameterServerStep>(options, services, model_, *items_, features_.get());
  } else {
    collective_ = std::make_unique<Collective>(options, services, model_, *items_, features_.get(), *step_);
  }
}

Trainer::~Trainer() = default;

model::StepClock& Trainer::clock() {
  return served_ ? served_->clock : collective_->step.clock;
}

void Trainer::memory_may_have_moved() {
  if (collective_) collective_->graphs.memory_may_have_moved();
}

void Trainer::take_times(bool on) {
  if (collective_) collective_->graphs.pause(on);
  clock() = model::StepClock(services_.backend, on);
}

void Trainer::start_epoch(std::int64_t epoch) {
  if (drawn_.epoch != epoch && next_.valid()) drawn_ = next_.get();
  const int threads = drawing_threads(services_);
  if (drawn_.epoch != epoch) drawn_ = order_.draw(epoch, threads);
  items_->set_order(drawn_.rows, drawn_.begin);
  if (features_) features_->set_order(drawn_.rows, drawn_.begin);
  services_.backend.clear_losses(*step_);
  memory_may_have_moved();
  if (next_.valid()) return;  // the epoch was taken up before
  next_ = std::async(std::launch::async,
                     [this, next = epoch + 1, threads] { return order_.draw(next, threads); });
}

model::Network& Trainer::model() {
  memory_may_have_moved();
  if (served_) served_->sync_weights();
  return model_;
}

WireBytes Trainer::wire_bytes() const {
  if (served_) return served_->wire_bytes();
  const double link = collective_->optimizer.reducer().bytes_per_rank();
  return {.total = services_.communicator.size() * link, .worker_out = link, .worker_in = link};
}

bool Trainer::works() const {
  return !served_ || served_->is_worker();
}

std::optional<Staleness> Trainer::take_staleness() {
  return served_ ? served_->take_staleness() : std::nullopt;
}

const backend::FloatBuffer& Trainer::flat(FlatState state) {
  memory_may_have_moved();
  return served_ ? served_->flat(state) : collective_->optimizer.flat(state);
}

void Trainer::set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) {
  if (served_) return served_->set_flat(state, fill);
  collective_->optimizer.set_flat(state, fill);
}

void Trainer::go_on(std::int64_t updates_done, std::int64_t users_seen, backend::LossScale scale) {
  updates_done_ = updates_done;
  users_seen_ = users_seen;
  if (scale.scale > 0.0F) services_.backend.set_loss_scale(scale, *step_);
  // Before the first update all ranks compute with the weights as they were drawn.
  if (updates_done == 0) return;
  if (served_) return served_->round_weights();
  collective_->optimizer.round_weights();
}

std::int64_t Trainer::shard_bytes() const {
  return items_->bytes() + (features_ ? features_->bytes() : 0);
}

std::string Trainer::shard_description() const {
  return items_->held().description();
}

double Trainer::update_bytes() const {
  if (served_) return served_->update_bytes();
  const double parameters = static_cast<double>(model_.layout().parameter_count());
  const comm::Reducer<backend::Backend>& reducer = collective_->optimizer.reducer();
  const double own = reducer.mode().sharded ? parameters / services_.communicator.size() : parameters;
  const bool narrow = services_.backend.precision() == backend::Precision::bf16 ||
                      services_.backend.precision() == backend::Precision::fp16;
  constexpr double in_and_out = 2.0 * sizeof(float);
  return own * 3.0 * in_and_out + parameters * (collective_->optimizer.fuses() ? 0.0 : in_and_out) +
         (narrow ? 2.0 * parameters : 0.0);
}

bool Trainer::overlaps() const {
  return collective_ && collective_->optimizer.reducer().mode().overlap;
}

backend::StepNumbers Trainer::numbers(std::int64_t t) const {
  return {options_.train.seed, static_cast<std::uint32_t>(updates_done_), t, static_cast<float>(beta()), {}};
}

void Trainer::step(std::int64_t t) {
  services_.communicator.activity().begin_step(updates_done_);
  const std::int64_t batch_users = order_.batch_users(t);
  if (served_) {
    served_->run(numbers(t), batch_users, *step_);
  } else {
    backend::StepNumbers now = numbers(t);
    now.rule = collective_->optimizer.rule(updates_done_, batch_users);
    // A batch of so many users that starts at this virtual shard gives each rank the same number of them
    // every time.
    const bool alone = services_.communicator.size() == 1;
    const std::int64_t begin = alone ? 0 : t * options_.train.batch_size % options_.data.virtual_shards;
    collective_->step.run(now, items_->users(t), {begin, batch_users});
  }
  if (const auto sums = services_.backend.poll_losses(*step_)) require_numbers(*sums);
  ++updates_done_;
  users_seen_ += batch_users;
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
