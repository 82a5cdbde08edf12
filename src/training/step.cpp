// The training step with distributed.strategy: allreduce: every rank computes gradients, and collectives sum
// them.
#include <vector>

#include "training/bucket_plan.hpp"
#include "training/gradient_exchange.hpp"
#include "training/optimizer.hpp"
#include "training/state.hpp"
#include "training/step_graphs.hpp"
#include "training/strategy.hpp"
#include "training/traffic.hpp"
#include "training/training_data.hpp"

namespace vaecf::training {
namespace {

class AllReduce final : public Strategy {
 public:
  AllReduce(const Options& options, const comm::RankGrid& grid, TrainingData& data, device::StepTimer& timer)
      : options_(options),
        grid_(grid),
        data_(data),
        device_(data.device),
        model_(*data.model),
        timer_(timer),
        exchange_(grid.world(), data.device,
                  plan_sections(grid, model_.layout(), model_.parameter_groups(),
                                bucket_elements(options.distributed, grid.world())),
                  {.sharded = options.distributed.optimizer == comm::OptimizerPlacement::sharded,
                   .bf16_comm = options.distributed.comm_dtype == comm::CommDtype::bf16,
                   .overlap = options.distributed.overlap == Toggle::on ||
                              (options.distributed.overlap == Toggle::automatic &&
                               grid.world().supports_graph_capture())},
                  model_.parameters()),
        optimizer_(options.optimizer, options.train.weight_decay, data.device, exchange_.moment_elements(),
                   options.train.clip_gradient_norm),
        state_(data.device, *data.model, exchange_, optimizer_),
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
    const std::int64_t users = data_.items.users(params.batch);
    timer_.start();
    // Not captured: it writes the parameters to the step state, where a replayed graph reads them.
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
        timer_.end_phase(device::StepPhase::reduce);
        optimizer_.update(summed.elements, summed.moments_offset, exchange_.gradients(), model_.parameters(),
                          state, fused_tensors_);
        timer_.end_phase(device::StepPhase::update);
        exchange_.gather_weights(summed);  // of a sharded optimizer
      }
      exchange_.finish();
      timer_.end_phase(device::StepPhase::reduce);
      device_.end_step(state);
      timer_.end_phase(device::StepPhase::update);
    };
    graphs_.run({parameter_group.index, batch_users}, work);
  }

  models::TrainableModel& synced_model() override {
    graphs_.memory_may_have_moved();
    return model_;
  }

  const device::Buffer& gather_state(StateTensor state) override {
    graphs_.memory_may_have_moved();
    return state_.gather(state);
  }

  void load_state(StateTensor state, const std::function<void(device::Buffer&)>& fill) override {
    state_.load(state, fill);
  }

  void round_weights() override { exchange_.round_weights(); }
  void memory_changed() override { graphs_.memory_may_have_moved(); }
  void enable_graphs(bool on) override { graphs_.set_enabled(on); }

  TrainingFacts facts() const override {
    const bool on_gpu = device_.facts().kind == device::DeviceKind::cuda;
    return {.overlaps = static_cast<bool>(exchange_.ready()),
            .update_bytes = update_bytes(options_.model, grid_, model_, exchange_, fused_tensors_, on_gpu),
            .comm_volume = comm_volume(options_, grid_, device_.facts(), model_, exchange_)};
  }

 private:
  const Options& options_;
  const comm::RankGrid& grid_;
  TrainingData& data_;
  device::Device& device_;
  models::TrainableModel& model_;
  device::StepTimer& timer_;
  GradientExchange exchange_;
  Optimizer optimizer_;
  State state_;
  StepGraphs graphs_;
  bool needs_stats_ = false;
  std::vector<int> fused_tensors_;
};

}  // namespace

std::unique_ptr<Strategy> make_all_reduce(const Options& options, const comm::RankGrid& grid,
                                          TrainingData& data, device::StepTimer& timer) {
  return std::make_unique<AllReduce>(options, grid, data, timer);
}

}  // namespace vaecf::training
