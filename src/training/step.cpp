// The training step with distributed.strategy: allreduce: every rank computes gradients, and collectives sum
// them.
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include <array>
#include <utility>

#include "training/gradient_exchange.hpp"
#include "training/optimizer.hpp"
#include "training/strategy.hpp"
#include "training/training_data.hpp"

namespace vaecf::training {
namespace {

/// Captures the operations of a training step as a CUDA graph, once per batch shape, and replays them. If
/// capture is not supported, as on CPUs, the operations run directly.
///
/// All ranks must capture together and replay together, since NCCL requires matching collectives on all
/// ranks. A shape therefore describes the batch of all ranks.
class StepGraphs {
 public:
  /// The parameter group of the step, the first virtual shard of its batch (0 if all ranks share each batch),
  /// and the number of users of the batch over all ranks. The last two determine the number of users of every
  /// rank.
  using Shape = std::array<std::int64_t, 3>;

  /// Both arguments must outlive this object.
  StepGraphs(device::Device& device, comm::Communicator& communicator)
      : device_(device),
        communicator_(communicator),
        captures_(communicator.size() == 1 || communicator.supports_graph_capture()) {}

  /// Runs `work` and captures it as the graph of `shape`, or replays that graph. Collective if the graphs
  /// were invalidated since the last call.
  void run(Shape shape, const std::function<void()>& work) {
    if (!captures_ || !enabled_) return work();
    if (std::exchange(memory_may_have_moved_, false)) drop_stale_graphs();
    std::unique_ptr<device::Graph>& graph = graphs_[shape];
    if (graph && device_.replay(*graph)) return;
    graph = device_.capture(work);
    captures_ = graph != nullptr;
    memory_may_have_moved_ = true;
  }

  /// While disabled, run() executes the operations directly, so that their phases can be timed. All ranks
  /// must call it.
  void set_enabled(bool enabled) {
    enabled_ = enabled;
    memory_may_have_moved_ = true;
  }
  /// Makes the next run() check whether memory that graphs use was reallocated, for example by an evaluation.
  /// All ranks must call it.
  void memory_may_have_moved() { memory_may_have_moved_ = true; }

 private:
  /// Discards the graphs of all ranks if the memory of any rank has moved. For a single rank, replay()
  /// detects this by itself.
  void drop_stale_graphs() {
    if (communicator_.size() == 1) return;
    const bool moved =
        std::ranges::any_of(graphs_, [&](const auto& entry) { return !device_.is_valid(*entry.second); });
    if (communicator_.all_reduce(std::int64_t{moved ? 1 : 0}, comm::Reduction::max) == 1) graphs_.clear();
  }

  device::Device& device_;
  comm::Communicator& communicator_;
  bool captures_;
  bool enabled_ = true;
  bool memory_may_have_moved_ = false;
  std::map<Shape, std::unique_ptr<device::Graph>> graphs_;
};

class AllReduce final : public Strategy {
 public:
  AllReduce(const config::TrainingConfig& options, const comm::RankGrid& grid, TrainingData& data,
            models::StepTimer& timer)
      : options_(options),
        grid_(grid),
        data_(data),
        device_(data.device),
        model_(*data.model),
        timer_(timer),
        exchange_(grid.world(), data.device,
                  plan_sections(grid, model_.layout(), model_.parameter_groups(),
                                bucket_elements(options.distributed)),
                  {.sharded = options.distributed.optimizer == comm::OptimizerPlacement::sharded,
                   .bf16_comm = options.distributed.comm_dtype == comm::CommDtype::bf16,
                   .overlap = options.distributed.overlap == Toggle::on ||
                              (options.distributed.overlap == Toggle::automatic &&
                               grid.world().supports_graph_capture())},
                  model_.parameters()),
        optimizer_(options.optimizer, options.train.weight_decay, data.device, exchange_.moment_elements(),
                   options.train.clip_gradient_norm),
        graphs_(data.device, grid.world()) {
    const bool clips = options.train.clip_gradient_norm > 0.0;
    needs_stats_ = clips || device_.facts().precision == device::Precision::fp16;
    // If no other rank has this rank's tensors of items, their gradients need no sum, so their updates are
    // fused into the backward pass.
    if (grid.data_parallel_ranks().size() == 1 && device_.fuses_updates() && !clips)
      fused_tensors_ = model_.fused_tensors();
  }

  void step(device::StepParams params, std::int64_t batch_users, ParameterGroup parameter_group) override {
    params.rule = optimizer_.rule(parameter_group.updates, batch_users);
    // Position p of an epoch is a user of virtual shard p mod data.virtual_shards, so the first virtual shard
    // of a batch and the batch's size determine the number of users of every model-parallel group.
    const std::int64_t first_shard =
        grid_.model_parallel_groups() == 1
            ? 0
            : params.batch * options_.train.batch_size % options_.data.virtual_shards;
    const std::int64_t users = data_.items.users(params.batch);
    timer_.start();
    // Not captured: it writes seed, batch, beta and rule to the step state, where a replayed graph reads
    // them.
    device_.begin_step(params, *data_.state);
    // Called twice when it is captured, see Device::capture().
    const auto work = [this, users, parameter_group = parameter_group.index] {
      device::StepState& state = *data_.state;
      exchange_.begin(parameter_group);
      const models::NetworkInput batch = data_.gather(users);
      // The backward pass updates fused_tensors_; update() skips them.
      const device::FusedUpdate fused{model_.parameters(), optimizer_.first_moment(),
                                      optimizer_.second_moment()};
      const device::Backward backward{model_.parameters(), state, exchange_.gradients(), exchange_.ready(),
                                      fused_tensors_.empty() ? nullptr : &fused};
      model_.forward_backward(batch, backward, parameter_group, timer_);
      if (needs_stats_) exchange_.all_reduce_stats(state);
      for (std::int64_t part = 0; part < exchange_.parts(); ++part) {
        const UpdatePart summed = exchange_.wait_sum(part);
        timer_.end_phase(models::StepPhase::reduce);
        optimizer_.update(summed.elements, summed.moments_offset, exchange_.gradients(), model_.parameters(),
                          state, fused_tensors_);
        timer_.end_phase(models::StepPhase::update);
        exchange_.gather_weights(summed);  // of a sharded optimizer
      }
      exchange_.finish();
      timer_.end_phase(models::StepPhase::reduce);
      device_.end_step(state);
      timer_.end_phase(models::StepPhase::update);
    };
    graphs_.run({parameter_group.index, first_shard, batch_users}, work);
  }

  models::TrainableModel& synced_model() override {
    graphs_.memory_may_have_moved();
    return model_;
  }

  const device::Buffer& gather_state(StateTensor state) override {
    graphs_.memory_may_have_moved();
    device::Buffer& gradients = exchange_.gradients();  // unused between steps
    if (state == StateTensor::prior) {
      const Range elements = model_.prior_elements();
      device_.copy(model_.prior()->master(), {0, elements.size()}, gradients, elements.begin);
      return gradients;
    }
    const device::Buffer* packed =
        state == StateTensor::weights ? exchange_.master_shard() : &optimizer_.moment(state);
    if (packed == nullptr) return model_.parameters().master();
    if (!exchange_.mode().sharded) return *packed;
    exchange_.all_gather_shards(*packed, gradients);
    return gradients;
  }

  void load_state(StateTensor state, const std::function<void(device::Buffer&)>& fill) override {
    if (state == StateTensor::weights) {
      fill(model_.parameters().master());
      model_.finish_writing();
      return exchange_.save_master_shard();
    }
    if (state != StateTensor::prior && !exchange_.mode().sharded) return fill(optimizer_.moment(state));
    device::Buffer& gradients = exchange_.gradients();
    device_.fill(gradients, 0.0F);
    fill(gradients);
    if (state != StateTensor::prior) return exchange_.pack(gradients, optimizer_.moment(state));
    device::Parameters& prior = *model_.prior();
    device_.copy(gradients, model_.prior_elements(), prior.master(), 0);
    device_.refresh_copies(prior, {0, prior.layout().size});
  }

  void round_weights() override { exchange_.round_weights(); }
  void memory_changed() override { graphs_.memory_may_have_moved(); }
  void enable_graphs(bool on) override { graphs_.set_enabled(on); }

  TrainingFacts facts() const override {
    const ItemSliceProblem problem =
        item_slice_problem(options_, data_.model->tensors(), model_.items(), grid_.world());
    const double activations = training::item_slice_traffic(problem, grid_.item_slices()).activations;
    double sent = 0.0;
    double updated = 0.0;
    const std::vector<int> passes = models::passes_of_epoch(options_.model);
    for (const int parameter_group : passes) {
      sent += exchange_.bytes_per_rank(parameter_group);
      updated += update_bytes(parameter_group);
    }
    const auto count = static_cast<double>(passes.size());
    sent = activations + sent / count;
    return {.overlaps = static_cast<bool>(exchange_.ready()),
            .update_bytes = updated / count,
            .comm_volume = {.total = grid_.world().size() * sent,
                            .worker_out = sent,
                            .worker_in = sent,
                            .activations = activations}};
  }

 private:
  /// Returns TrainingFacts::update_bytes of a step on `parameter_group`.
  double update_bytes(int parameter_group) const {
    const device::ParameterLayout& layout = model_.layout();
    const Range tensors = layout.tensors_in(model_.parameter_groups()[parameter_group]);
    const auto parameters = static_cast<double>(layout.parameter_count(tensors));
    const double updated = exchange_.mode().sharded ? parameters / grid_.world().size() : parameters;
    const bool on_gpu = device_.facts().kind == device::DeviceKind::cuda;
    double gradients = parameters;  // elements
    for (const int tensor : fused_tensors_) {
      const device::TensorSpec& weight = layout.tensors[tensor].spec;
      // A GPU stores the gradient of the output table before it updates the table beside later operations.
      const bool stored = weight.kind == device::TensorKind::output_bias ||
                          (weight.kind == device::TensorKind::output_table && on_gpu);
      if (!stored && tensor >= tensors.begin && tensor < tensors.end)
        gradients -= static_cast<double>(weight.rows * weight.columns);
    }
    constexpr double read_and_written = 2.0 * sizeof(float);
    const auto copies = static_cast<double>(model_.parameters().copied_count(tensors));
    return (updated * 3.0 + gradients) * read_and_written + copies * sizeof(std::uint16_t);
  }

  const config::TrainingConfig& options_;
  const comm::RankGrid& grid_;
  TrainingData& data_;
  device::Device& device_;
  models::TrainableModel& model_;
  models::StepTimer& timer_;
  GradientExchange exchange_;
  Optimizer optimizer_;
  StepGraphs graphs_;
  bool needs_stats_ = false;
  std::vector<int> fused_tensors_;
};

}  // namespace

std::unique_ptr<Strategy> make_all_reduce(const config::TrainingConfig& options, const comm::RankGrid& grid,
                                          TrainingData& data, models::StepTimer& timer) {
  return std::make_unique<AllReduce>(options, grid, data, timer);
}

}  // namespace vaecf::training
