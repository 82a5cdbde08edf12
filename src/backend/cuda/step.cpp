#include <vaecf/backend/cuda/device.hpp>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "launch.hpp"
#include "nvtx.hpp"
#include "shares.hpp"

namespace vaecf::cuda {
namespace {

VAECF_HD inline bool finite(double x) {
  return x - x == 0.0;
}

struct StartState {
  static constexpr int threads = 32;
  static constexpr int scratch_bytes = 0;
  StepRecord* record;
  backend::LossScale scale;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    lanes.each(1, [&](std::int64_t) {
      *record = StepRecord{};
      record->scale = scale;
    });
  }
};

struct BeginStep {
  static constexpr int threads = 32;
  static constexpr int scratch_bytes = 0;
  StepRecord* record;
  float* verdict;
  backend::StepNumbers numbers;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    lanes.each(1, [&](std::int64_t) {
      record->numbers = numbers;
      record->nll = 0.0;
      record->kl = 0.0;
      record->users = 0;
      record->squares = 0.0;
      verdict[0] = 0.0F;
      verdict[1] = 0.0F;
    });
  }
};

struct EndStep {
  static constexpr int threads = 32;
  static constexpr int scratch_bytes = 0;
  StepRecord* record;
  const float* overflow;
  bool scaled;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    lanes.each(1, [&](std::int64_t) {
      backend::LossSums& sums = record->sums;
      const bool skipped = *overflow > 0.0F;
      if (skipped) {
        ++sums.skipped;
      } else {
        if (sums.broken_step < 0 && !(finite(record->nll) && finite(record->kl))) {
          sums.broken_step = record->numbers.step;
          sums.broken_nll = record->nll;
          sums.broken_kl = record->kl;
        }
        sums.nll += record->nll;
        sums.kl += record->kl;
        sums.weighted_kl += static_cast<double>(record->numbers.beta) * record->kl;
        sums.users += record->users;
      }
      if (scaled) move_scale(skipped, record->scale);
    });
  }

  VAECF_HD static void move_scale(bool skipped, backend::LossScale& scale) {
    if (skipped) {
      // Far below what any gradient needs, and never zero.
      constexpr float smallest = 0x1p-24F;
      scale.scale = scale.scale > smallest ? 0.5F * scale.scale : smallest;
      scale.good_steps = 0;
    } else if (++scale.good_steps == backend::LossScale::growth_interval) {
      const float doubled = 2.0F * scale.scale;
      scale.scale = doubled < backend::LossScale::largest ? doubled : backend::LossScale::largest;
      scale.good_steps = 0;
    }
  }
};

/// One value that came as an argument, into the device's memory.
template <class T>
struct Assign {
  static constexpr int threads = 32;
  static constexpr int scratch_bytes = 0;
  T* to;
  T value;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    lanes.each(1, [&](std::int64_t) { *to = value; });
  }
};

/// How many of a block's share of the elements are not finite.
struct CountBroken {
  static constexpr int threads = Shares::threads;
  static constexpr int scratch_bytes = 0;
  Shares shares;
  std::int64_t* counts;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    const std::int64_t count =
        shares.sum(lanes, block, [](float value) -> std::int64_t { return finite(value) ? 0 : 1; });
    lanes.each(1, [&](std::int64_t) { counts[block] = count; });
  }
};

/// A loss that is no number counts too: its step must be skipped on all ranks alike.
struct AddBroken {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* counts;
  std::int64_t n;
  const StepRecord* record;
  float* overflow;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    const std::int64_t count = lanes.sum(n, [&](std::int64_t i) { return counts[i]; });
    const std::int64_t losses = finite(record->nll) && finite(record->kl) ? 0 : 1;
    lanes.each(1, [&](std::int64_t) { *overflow += static_cast<float>(count + losses); });
  }
};

void wait_on_host(const Event& event) {
  for (int look = 0; !event.done(); ++look) {
    if (look < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

/// After an error, which says more than what the end of a spoilt capture has to say.
void abandon_capture(Queue& queue) noexcept {
  try {
    queue.end_capture();
  } catch (...) {
  }
}

}  // namespace

std::unique_ptr<StepState> Device::make_step_state() {
  auto step = std::make_unique<StepState>(gpu_);
  const backend::LossScale scale =
      precision_ == backend::Precision::fp16 ? backend::LossScale{} : backend::LossScale{1.0F, 0};
  launch(queue_, 1, StartState{step->record.data(), scale});
  return step;
}

void Device::begin_step(const backend::StepNumbers& numbers, StepState& step) {
  const NvtxRange nvtx("step begins");
  if (queue_.capturing()) throw std::logic_error("begin_step: a recording would keep this step's numbers");
  Event& begun = begun_[next_begun_];
  wait_on_host(begun);
  queue_.record(begun);
  next_begun_ = (next_begun_ + 1) % begun_.size();
  step.numbers = numbers;
  launch(queue_, 1, BeginStep{step.record.data(), step.verdict.data(), numbers});
}

void Device::inspect_gradients(const FloatBuffer& gradients, Range range, StepState& step) {
  if (precision_ == backend::Precision::fp16) count_overflows(gradients, range, step);
  if (step.numbers.rule.clip_norm > 0.0F) add_squares(gradients, range, step);
}

void Device::count_overflows(const FloatBuffer& gradients, Range range, StepState& step) {
  const Shares shares(gradients.data() + range.begin, range.size());
  auto* counts = scratch_.get<std::int64_t>(Scratch::sums, Shares::most_sums, "counts of overflows");
  launch(queue_, shares.blocks(), CountBroken{shares, counts});
  launch(queue_, 1, AddBroken{counts, shares.blocks(), step.record.data(), step.verdict.data()});
}

FloatBuffer& Device::verdict(StepState& step) {
  return step.verdict;
}

void Device::end_step(StepState& step) {
  const NvtxRange nvtx("step ends");
  launch(queue_, 1, EndStep{step.record.data(), step.verdict.data(), precision_ == backend::Precision::fp16});
}

void Device::clear_losses(StepState& step) {
  set_losses({}, step);
}

void Device::set_losses(const backend::LossSums& sums, StepState& step) {
  launch(queue_, 1, Assign<backend::LossSums>{&step.record.data()->sums, sums.unbroken()});
  // A look that is still on its way shows sums from before. Nobody reads it: the next one comes after it.
  step.looking = false;
  step.has_looked = false;
}

backend::LossSums Device::read_losses(StepState& step) {
  queue_.copy_out(step.look.data(), step.record.data(), sizeof(StepRecord));
  queue_.finish();
  step.looking = false;
  step.has_looked = true;
  step.last_look = step.look.data()->sums;
  return step.last_look;
}

std::optional<backend::LossSums> Device::poll_losses(StepState& step) {
  if (step.looking && step.arrived.done()) {
    step.looking = false;
    step.has_looked = true;
    step.last_look = step.look.data()->sums;
  }
  if (!step.looking) {
    queue_.copy_out(step.look.data(), step.record.data(), sizeof(StepRecord));
    queue_.record(step.arrived);
    step.looking = true;
  }
  if (!step.has_looked) return std::nullopt;
  return step.last_look;
}

backend::LossScale Device::loss_scale(StepState& step) {
  queue_.copy_out(step.look.data(), step.record.data(), sizeof(StepRecord));
  queue_.finish();
  return step.look.data()->scale;
}

void Device::set_loss_scale(backend::LossScale scale, StepState& step) {
  // Only fp16 gradients carry one.
  if (precision_ != backend::Precision::fp16) return;
  launch(queue_, 1, Assign<backend::LossScale>{&step.record.data()->scale, scale});
}

std::unique_ptr<Graph> Device::record(const std::function<void()>& work) {
  if (queue_.capturing()) throw std::logic_error("record: a recording within a recording");
  work();
  if (options_.graph == Toggle::off) return nullptr;
  // The first run has made room for everything, planned the products and loaded the kernels.
  queue_.begin_capture();
  generation_.recording = true;
  try {
    work();
  } catch (...) {
    generation_.recording = false;
    abandon_capture(queue_);
    throw;
  }
  generation_.recording = false;
  return std::make_unique<Graph>(Graph{queue_.end_capture(), generation_.value});
}

bool Device::fits(const Graph& graph) const {
  return graph.generation == generation_.value;
}

bool Device::replay(Graph& graph) {
  const NvtxRange nvtx("step, replayed");
  if (!fits(graph)) return false;
  queue_.run(graph.work);
  return true;
}

}  // namespace vaecf::cuda
