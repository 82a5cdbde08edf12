#pragma once

#include <vaecf/device/update_rule.hpp>

#include <cstdint>

namespace vaecf::device {

/// What changes from one training step to the next; all else is the same every time.
struct StepNumbers {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;  ///< updates tried before this one: keys the randomness, see math/philox.hpp
  std::int64_t batch = 0;  ///< which batch of the BatchOrder
  float beta = 0.0F;       ///< weight of the KL term
  UpdateRule rule;         ///< decay as on tensors that decay
};

/// Loss terms as sums over users, fp64, and how the steps went, since `clear_losses`. Steps join at their
/// end.
struct LossSums {
  double nll = 0.0;          ///< - sum_u sum_i x_ui log_softmax(logits_u)_i
  double kl = 0.0;           ///< sum_u KL(q(z|x_u) || N(0, 1))
  double weighted_kl = 0.0;  ///< beta * kl, with each step's own beta
  std::int64_t users = 0;
  std::int64_t skipped = 0;  ///< fp16: steps whose gradient overflowed, left out of all the sums
  /// The first step (StepNumbers::step) whose loss was no number, with its terms; -1: none. Never in fp16,
  /// which skips such steps.
  std::int64_t broken_step = -1;
  double broken_nll = 0.0;
  double broken_kl = 0.0;

  /// The same sums as of steps that all went well.
  LossSums unbroken() const { return {nll, kl, weighted_kl, users, skipped, -1, 0.0, 0.0}; }
};

/// fp16 gradients are multiplied by `scale` so that small ones do not vanish. An overflow halves it and the
/// step is skipped; `growth_interval` good steps in a row double it (Micikevicius et al. 2018).
struct LossScale {
  float scale = 65536.0F;
  std::int32_t good_steps = 0;  ///< since the last change

  static constexpr std::int32_t growth_interval = 2000;
  static constexpr float largest = 16777216.0F;
};

/// Where the host, or another queue of the device, finds out that work is done; null on the CPU, where it is
/// done already.
struct Completion {
  void* event = nullptr;
};

}  // namespace vaecf::device
