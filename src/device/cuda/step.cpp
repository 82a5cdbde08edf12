#include <chrono>
#include <stdexcept>
#include <thread>

#include "device/cuda/device.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

// A copy per step would cost 3 to 4 us, which small batches notice.
constexpr std::int64_t polls_per_readback = 16;

struct BeginStep {
  DeviceStepState* state;
  float* gradient_stats;
  device::StepParams params;

  VAECF_HD void operator()(std::int64_t i) const {
    if (i == 0) state->begin(params);
    gradient_stats[i] = 0.0F;
  }
};

/// Adds the losses of users to those of the step, in one block so that the order of additions is fixed. Users
/// are ranges of the batch, of which those that only pad it are left out.
struct AddLosses {
  static constexpr int threads = 512;
  DeviceStepState* state;
  const double* nll;  // (nll_users)
  Range nll_users;
  Range counted_users;
  const double* kl;  // (kl_users)
  Range kl_users;
  const double* weighted_kl;  // (weighted_users)
  Range weighted_users;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t) const {
    const double nll_sum = sum(thread_group, nll, nll_users);
    const double kl_sum = sum(thread_group, kl, kl_users);
    const double weighted_sum = sum(thread_group, weighted_kl, weighted_users);
    thread_group.each(1, [&](std::int64_t) {
      state->nll += nll_sum;
      state->kl += kl_sum;
      state->weighted_kl += weighted_sum;
      state->users += present(counted_users);
    });
  }

  VAECF_HD std::int64_t present(Range users) const {
    const std::int64_t end = users.end < state->params.users ? users.end : state->params.users;
    return end > users.begin ? end - users.begin : 0;
  }

  template <class ThreadGroup>
  VAECF_HD double sum(ThreadGroup& thread_group, const double* losses, Range users) const {
    return thread_group.sum(present(users), [&](std::int64_t user) { return losses[user]; });
  }
};

/// Adds the losses that are left, and ends the step.
struct EndStep {
  static constexpr int threads = AddLosses::threads;
  AddLosses left;
  const float* overflow;
  bool scaled;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    left(thread_group, block);
    thread_group.each(1, [&](std::int64_t) {
      const bool skipped = *overflow > 0.0F;
      if (skipped) {
        ++left.state->sums.skipped;
      } else {
        left.state->add_to_sums();
      }
      if (scaled) move_scale(skipped, left.state->scale);
    });
  }

  VAECF_HD static void move_scale(bool skipped, LossScale& scale) {
    if (skipped) {
      // Far below any useful scale, and never zero.
      constexpr float min_scale = 0x1p-24F;
      scale.scale = scale.scale > min_scale ? 0.5F * scale.scale : min_scale;
      scale.good_steps = 0;
    } else if (++scale.good_steps == LossScale::growth_interval) {
      const float doubled = 2.0F * scale.scale;
      scale.scale = doubled < LossScale::max_scale ? doubled : LossScale::max_scale;
      scale.good_steps = 0;
    }
  }
};

/// Returns the kernel that adds the losses that are left to end_step(), of which there are none afterwards.
AddLosses take_losses(StepState& step) {
  const AddLosses losses{.state = step.device_state.data(),
                         .nll = step.nll.memory.data(),
                         .nll_users = step.nll.users,
                         .counted_users = step.nll.users.size() > 0 ? step.nll.counted : Range{},
                         .kl = step.kl.memory.data(),
                         .kl_users = step.kl.users,
                         .weighted_kl = step.weighted_kl.memory.data(),
                         .weighted_users = step.weighted_kl.users};
  step.nll.users = step.kl.users = step.weighted_kl.users = {};
  return losses;
}

void wait_on_host(const Event& event) {
  for (int look = 0; !event.done(); ++look) {
    if (look < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

/// Ends a failed capture. Ignores further errors, because the first one names the cause.
void discard_capture(Stream& stream) noexcept {
  try {
    stream.end_capture();
  } catch (...) {
  }
}

}  // namespace

std::unique_ptr<device::StepState> Device::make_step_state() {
  auto step = std::make_unique<StepState>(gpu_);
  DeviceStepState start;
  if (precision_ == device::Precision::fp16) start.scale = LossScale();
  stream_.copy_h2d(step->device_state.data(), &start, sizeof start);
  return step;
}

void Device::begin_step(const device::StepParams& params, device::StepState& step_base) {
  auto& step = own<StepState>(step_base);
  const NvtxRange nvtx("step begins");
  if (stream_.capturing()) throw std::logic_error("begin_step: must not be captured");
  join_side_stream();
  Event& begun = begun_[next_begun_];
  wait_on_host(begun);
  stream_.record(begun);
  next_begun_ = (next_begun_ + 1) % begun_.size();
  updated_unused_ = nullptr;
  open_sums_.clear();
  step.params = params;
  step.nll.users = step.kl.users = step.weighted_kl.users = {};
  launch_elements<32>(stream_, 2, BeginStep{step.device_state.data(), step.gradient_stats.data(), params});
}

void Device::end_step(device::StepState& step_base) {
  auto& step = own<StepState>(step_base);
  const NvtxRange nvtx("step ends");
  if (!open_sums_.empty()) throw std::logic_error("end_step: a fused backward pass must end with the input");
  join_side_stream();
  launch(stream_, 1,
         EndStep{take_losses(step), step.gradient_stats.data(), precision_ == device::Precision::fp16});
}

double* Device::user_losses(Range users, UserLosses& losses, StepState& step) {
  if (losses.users.size() > 0) add_losses(step);
  grow(gpu_, allocation_epoch_, users.size(), "losses of the batch's users", losses.memory);
  losses.users = users;
  losses.counted = users;
  return losses.memory.data();
}

void Device::add_losses(StepState& step) {
  if (step.nll.users.size() == 0 && step.kl.users.size() == 0 && step.weighted_kl.users.size() == 0) return;
  launch(stream_, 1, take_losses(step));
}

void Device::set_losses(const LossSums& losses, device::StepState& step_base) {
  auto& step = own<StepState>(step_base);
  const LossSums start = losses.without_nonfinite();
  stream_.copy_h2d(&step.device_state.data()->sums, &start, sizeof start);
  // A pending read-back contains sums from before; its result is discarded.
  step.readback_pending = false;
  step.has_losses = false;
}

device::StepSums Device::sums(device::StepState& step_base) {
  auto& step = own<StepState>(step_base);
  stream_.copy_d2h(step.readback.data(), step.device_state.data(), sizeof(DeviceStepState));
  stream_.synchronize();
  step.readback_pending = false;
  step.has_losses = true;
  step.last_losses = step.readback.data()->sums;
  return {step.last_losses, step.readback.data()->scale};
}

std::optional<LossSums> Device::poll_losses(device::StepState& step_base) {
  auto& step = own<StepState>(step_base);
  if (step.readback_pending && step.arrived.done()) {
    step.readback_pending = false;
    step.has_losses = true;
    step.last_losses = step.readback.data()->sums;
  }
  if (!step.readback_pending && step.polls++ % polls_per_readback == 0) {
    stream_.copy_d2h(step.readback.data(), step.device_state.data(), sizeof(DeviceStepState));
    stream_.record(step.arrived);
    step.readback_pending = true;
  }
  if (!step.has_losses) return std::nullopt;
  return step.last_losses;
}

void Device::set_loss_scale(LossScale scale, device::StepState& step_base) {
  // Only fp16 gradients are scaled.
  if (precision_ != device::Precision::fp16) return;
  auto& step = own<StepState>(step_base);
  stream_.copy_h2d(&step.device_state.data()->scale, &scale, sizeof scale);
}

std::unique_ptr<device::Graph> Device::capture(const std::function<void()>& work) {
  // Operations without end_step() leave work on the side stream. A capture must contain its end, and cannot
  // wait for work that was queued before.
  const auto run = [&] {
    work();
    join_side_stream();
  };
  run();
  if (options_.cuda_graph == Toggle::off) return nullptr;
  // The first run allocated all memory, planned the products and loaded the kernels.
  stream_.begin_capture();
  allocation_epoch_.capturing = true;
  try {
    run();
  } catch (...) {
    allocation_epoch_.capturing = false;
    sort_.pending = unused_.pending = update_.pending = false;
    discard_capture(stream_);
    throw;
  }
  allocation_epoch_.capturing = false;
  return std::make_unique<Graph>(stream_.end_capture(), allocation_epoch_.value);
}

bool Device::replay(device::Graph& graph) {
  const NvtxRange nvtx("step, replayed");
  if (!is_valid(graph)) return false;
  stream_.run(own<Graph>(graph).work);
  return true;
}

}  // namespace vaecf::cuda
