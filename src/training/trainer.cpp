#include <vaecf/base/failure.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/training/trainer.hpp>

#include <thread>

#include "training/bucket_plan.hpp"
#include "training/strategy.hpp"
#include "training/training_data.hpp"

namespace vaecf::training {
namespace {

/// Returns the number of threads that sample the next epoch; 1 on CPUs, whose cores are busy with the steps.
int sampling_threads(const Context& context) {
  if (context.device.facts().kind == device::DeviceKind::cpu) return 1;
  const int cores = cores_within(cpu_limit(), static_cast<int>(std::thread::hardware_concurrency()));
  return std::clamp(cores / context.communicator.local_size(), 1, 4);
}

/// Returns the range of the virtual shards of this rank's model-parallel group; empty if the rank is a server
/// of the parameter server.
Range owned_shards(const Context& context, const comm::DistributedOptions& distributed,
                   const data::VirtualShards& shards) {
  if (context.item_slices() > 1)
    return shards.owned_shards(context.model_parallel_group(), context.model_parallel_groups());
  const comm::Communicator& communicator = context.communicator;
  const comm::Roles roles(distributed, communicator.size());
  if (!roles.is_worker(communicator.rank())) return {};
  return shards.owned_shards(communicator.rank(), roles.workers);
}

}  // namespace

Trainer::Trainer(const Context& context, const Options& options, const io::DatasetFile& dataset,
                 std::int64_t min_model_rows)
    : context_(context),
      options_(options),
      grid_(context.grid ? context.grid : std::make_shared<const comm::RankGrid>(context.communicator)),
      shards_(dataset.rows("train"), options.data.virtual_shards),
      owned_(owned_shards(context, options.distributed, shards_)),
      sampler_(shards_, owned_, options.train.batch_size, options.train.last_batch == LastBatch::keep,
               options.train.seed),
      sampling_threads_(sampling_threads(context)),
      pads_(context.device.facts().kind == device::DeviceKind::cuda),
      parameter_groups_(models::trained_kind_of(options.model.type).passes(options.model)),
      timer_(context.device, false),
      annealing_(options.train.annealing, options.train.annealing.automatic_epochs(options.train.epochs),
                 sampler_.steps_per_epoch()) {
  const bool servers = options.distributed.strategy == comm::StrategyKind::parameter_server;
  const int owners = servers ? options.distributed.servers : context.communicator.size();
  data_ = std::make_unique<TrainingData>(context.device, dataset, shards_.rows_of(owned_), options.model,
                                         models::input_dims(options.model, dataset, grid_->model_parallel()),
                                         std::max(min_model_rows, sampler_.max_local_rows()),
                                         BucketPlan::alignment_elements * owners, options.train.seed);
  strategy_ = servers ? make_parameter_server(options, *grid_, *data_, timer_)
                      : make_all_reduce(options, *grid_, *data_, timer_);
}

Trainer::~Trainer() {
  if (upload_.valid()) upload_.wait();
}

void Trainer::upload(std::int64_t pass) {
  data_->upload_pass(sampler_.sample(pass, sampling_threads_, pads_));
}

void Trainer::start_pass(std::int64_t pass) {
  if (pass == pass_) return;
  if (upload_.valid()) upload_.get();
  if (pass != next_pass_) upload(pass);
  data_->start_pass();
  strategy_->memory_changed();
  pass_ = pass;
  next_pass_ = pass + 1;
  upload_ = std::async(std::launch::async, [this] { upload(next_pass_); });
}

void Trainer::start_epoch(std::int64_t epoch, std::int64_t t) {
  start_pass(epoch * passes() + t / sampler_.steps_per_epoch());
  epoch_ = epoch;
  set_losses({});
  if (t == 0) data_->model->start_epoch();
}

void Trainer::set_losses(const device::LossSums& sums) {
  context_.device.set_losses(sums, *data_->state);
}

device::LossScale Trainer::loss_scale() {
  return context_.device.sums(*data_->state).scale;
}

models::Model& Trainer::model() {
  return strategy_->synced_model();
}

std::optional<Staleness> Trainer::take_staleness() {
  return strategy_->take_staleness();
}

std::int64_t Trainer::users_before(std::int64_t t) const {
  const std::int64_t steps = sampler_.steps_per_epoch();
  return t / steps * sampler_.users_per_epoch() + t % steps * options_.train.batch_size;
}

std::vector<std::int64_t> Trainer::updates_by_parameter_group() const {
  const std::int64_t steps = sampler_.steps_per_epoch();
  const std::int64_t epochs = updates_done_ / steps_per_epoch();
  const std::int64_t done = updates_done_ % steps_per_epoch();
  std::vector<std::int64_t> updates(static_cast<std::size_t>(*std::ranges::max_element(parameter_groups_)) +
                                    1);
  for (std::int64_t pass = 0; pass < passes(); ++pass) {
    updates[parameter_groups_[pass]] +=
        epochs * steps + std::clamp<std::int64_t>(done - pass * steps, 0, steps);
  }
  return updates;
}

ParameterGroup Trainer::next_parameter_group() const {
  const std::int64_t pass = updates_done_ / sampler_.steps_per_epoch() % passes();
  const int parameter_group = parameter_groups_[pass];
  return {parameter_group, updates_by_parameter_group()[parameter_group]};
}

double Trainer::beta() const {
  const models::TrainedKind& kind = models::trained_kind_of(options_.model.type);
  if (kind.kl_term() == models::TrainedKind::KlTerm::of_model) return kind.kl_weight(options_.model);
  return annealing_.beta(updates_done_, users_seen_);
}

void Trainer::restore_annealing(double automatic_epochs) {
  annealing_ = Annealing(options_.train.annealing, automatic_epochs, sampler_.steps_per_epoch());
}

void Trainer::restore_progress(std::int64_t updates_done, std::int64_t users_seen, device::LossScale scale) {
  updates_done_ = updates_done;
  users_seen_ = users_seen;
  if (scale.scale <= 0.0F) return;
  set_losses({});
  context_.device.set_loss_scale(scale, *data_->state);
}

void Trainer::step(std::int64_t t) {
  context_.communicator.activity().begin_step(updates_done_);
  const std::int64_t steps = sampler_.steps_per_epoch();
  start_pass(epoch_ * passes() + t / steps);
  const std::int64_t batch = t % steps;
  const std::int64_t batch_users = sampler_.batch_users(batch);
  const device::StepParams params{.seed = options_.train.seed,
                                  .step = static_cast<std::uint32_t>(updates_done_),
                                  .batch = batch,
                                  .beta = static_cast<float>(beta()),
                                  .rule = {},
                                  .users = sampler_.local_rows(batch)};
  strategy_->step(params, batch_users, next_parameter_group());
  if (const auto sums = context_.device.poll_losses(*data_->state)) require_finite_loss(*sums);
  ++updates_done_;
  users_seen_ += batch_users;
}

device::LossSums Trainer::losses() {
  const device::LossSums sums = context_.device.sums(*data_->state).losses;
  require_finite_loss(sums);
  return sums;
}

double Trainer::sum_of_squares() {
  models::TrainableModel& model = strategy_->synced_model();
  return grid_->model_parallel_ranks().all_reduce(model.sum_of_squares(true)) + model.sum_of_squares(false);
}

TrainingFacts Trainer::facts() const {
  TrainingFacts facts = strategy_->facts();
  facts.data_bytes = data_->items.bytes() + (data_->features ? data_->features->bytes() : 0);
  facts.data_description = data_->items.held().description();
  facts.flat_elements = data_->model->layout().size;
  facts.prior_tensors = data_->model->layout().tensors_in(data_->model->prior_elements());
  return facts;
}

std::span<const StateTensor> Trainer::state_tensors() const {
  const std::span all(all_state_tensors);
  return data_->model->prior() == nullptr ? all.first(all.size() - 1) : all;
}

std::unique_ptr<StateCopy> Trainer::make_state_copy(bool spare_only) {
  const device::ParameterLayout& layout = data_->model->layout();
  const auto bytes = static_cast<std::int64_t>(state_tensors().size() * sizeof(float)) * layout.size;
  const bool fits = bytes <= context_.device.spare_bytes();
  if (spare_only && !fits) return nullptr;
  if (!exporter_) exporter_ = context_.device.make_exporter();
  return std::make_unique<StateCopy>(context_.device, *exporter_, layout, state_tensors(), fits);
}

void Trainer::copy_state(StateCopy* copy) {
  for (const StateTensor state : state_tensors()) {
    const device::Buffer& flat = strategy_->gather_state(state);
    if (copy != nullptr) copy->take(state, flat);
  }
  if (copy != nullptr) exporter_->wait_event(context_.device.record_event());
}

void Trainer::read_state_rows(StateTensor state, int tensor, Range rows, std::span<float> to) {
  context_.device.export_rows(data_->model->layout(), tensor, rows, strategy_->gather_state(state), to);
}

void Trainer::write_state(StateTensor state, bool round_weights,
                          const std::function<void(const WriteRows&)>& fill) {
  strategy_->load_state(state, [&](device::Buffer& flat) {
    fill([&](int tensor, Range rows, std::span<const float> values) {
      context_.device.import_rows(data_->model->layout(), tensor, rows, values, flat);
    });
  });
  if (state == StateTensor::weights && round_weights) strategy_->round_weights();
}

void Trainer::enable_timing(bool on) {
  strategy_->enable_graphs(!on);
  timer_ = device::StepTimer(context_.device, on);
}

void Trainer::require_finite_loss(const device::LossSums& sums) const {
  if (sums.nonfinite_step < 0) return;
  const std::string kl =
      models::trained_kind_of(options_.model.type).kl_term() != models::TrainedKind::KlTerm::none
          ? format(", kl {}", sums.nonfinite_kl)
          : std::string();
  throw CausedError(
      FailureCode::diverged,
      format(
          "the loss is not finite at step {} on rank {} (nll {}{}), since the weights have diverged; "
          "lower train.optimizer.learning_rate (now {:g}) or use a higher precision (existing checkpoints are kept)",
          sums.nonfinite_step + 1, context_.communicator.rank(), sums.nonfinite_nll, kl,
          options_.optimizer.learning_rate));
}

void add_phase_intervals(Timeline& timeline, const std::vector<device::PhaseInterval>& intervals,
                         std::int64_t updates_before) {
  for (const device::PhaseInterval& interval : intervals) {
    timeline.add({device::step_phase_names[static_cast<std::size_t>(interval.phase)], Track::compute,
                  timeline.at(interval.begin), timeline.at(interval.end), "step",
                  updates_before + interval.step + 1});
  }
}

}  // namespace vaecf::training
