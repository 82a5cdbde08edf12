#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/optim/optimizer_options.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace vaecf::optim {

/// Every option in its range, else InputError naming the key (train.optimizer.*).
void check(const OptimizerOptions& options);
/// The same for a bound on the gradient's norm; 0: none.
void check_clip_norm(double norm);

/// Moments and step size: turns options into the plain numbers of each step and applies them to all tensors,
/// or to the part of them that a rank owns. State beside the weights are two buffers laid out like them; the
/// number of updates belongs to the caller, who hands the rule to the backend as one of the step's numbers.
class Optimizer {
 public:
  /// `weight_decay` is lambda of the loss term lambda * sum ||W||^2. `elements` of the weights that are
  /// updated here: all of the layout's, or a part. Gradients whose norm is above `clip_norm` are scaled down
  /// to it; 0: none. InputError as `check`.
  Optimizer(const OptimizerOptions& options, double weight_decay, backend::Backend& backend,
            std::int64_t elements, double clip_norm = 0.0);

  /// The rule of the update after `updates_done` others, for a gradient summed over `users` users; with
  /// decay as on tensors that decay. Adam (Kingma and Ba 2015) in TensorFlow's form: rate = learning_rate *
  /// sqrt(1 - beta2^t) / (1 - beta1^t), t = updates_done + 1, computed in fp64.
  backend::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const;

  /// Applies the rule that `step` holds to the flat elements of `range`, but not to the layers `done`, which
  /// are updated already. Element i has moments i + moments_offset.
  void update(const backend::StepState& step, Range range, std::int64_t moments_offset,
              const backend::FloatBuffer& gradients, backend::Parameters& parameters,
              std::span<const backend::Layer> done = {});

  backend::FloatBuffer& first_moment() { return *first_moment_; }
  backend::FloatBuffer& second_moment() { return *second_moment_; }

 private:
  OptimizerOptions options_;
  backend::OptimizerKind kind_;
  double weight_decay_;
  double clip_norm_;
  backend::Backend& backend_;
  std::unique_ptr<backend::FloatBuffer> first_moment_;
  std::unique_ptr<backend::FloatBuffer> second_moment_;
};

}  // namespace vaecf::optim
