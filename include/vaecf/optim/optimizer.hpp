#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/optim/optimizer_options.hpp>

#include <cstdint>
#include <memory>

namespace vaecf::optim {

/// Every option in its range, else InputError naming the key (train.optimizer.*).
void check(const OptimizerOptions& options);

/// Moments and step size: turns options into the plain numbers of each step and applies them to all tensors.
/// State beside the weights are two buffers in their flat layout; the number of updates belongs to the
/// caller.
class Optimizer {
 public:
  /// `weight_decay` is lambda of the loss term lambda * sum ||W||^2. InputError as `check`.
  Optimizer(const OptimizerOptions& options, double weight_decay, backend::Backend& backend,
            const backend::ParameterLayout& layout);

  /// The rule of the update after `updates_done` others, for a gradient summed over `users` users; with
  /// decay as on tensors that decay. Adam (Kingma and Ba 2015) in TensorFlow's form: rate = learning_rate *
  /// sqrt(1 - beta2^t) / (1 - beta1^t), t = updates_done + 1, computed in fp64.
  backend::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const;

  /// One update of all tensors. `users` > 0: the global number of users of the step.
  void step(std::int64_t updates_done, std::int64_t users, const backend::FloatBuffer& gradients,
            backend::Parameters& parameters);

  backend::FloatBuffer& first_moment() { return *first_moment_; }
  backend::FloatBuffer& second_moment() { return *second_moment_; }

 private:
  OptimizerOptions options_;
  backend::OptimizerKind kind_;
  double weight_decay_;
  backend::Backend& backend_;
  std::unique_ptr<backend::FloatBuffer> first_moment_;
  std::unique_ptr<backend::FloatBuffer> second_moment_;
};

}  // namespace vaecf::optim
