#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/comm/distributed_options.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/models/model.hpp>

#include <cstdint>

namespace vaecf::training {

struct OptimizerOptions {
  device::OptimizerKind type = device::OptimizerKind::adam;
  double learning_rate = 1.0e-3;
  double beta1 = 0.9;    ///< adam: first moment
  double beta2 = 0.999;  ///< adam: second moment; rmsprop: decay of the mean square
  double epsilon = 1.0e-8;
  double momentum = 0.0;  ///< rmsprop, sgd
};

/// KL annealing: beta = min(cap, t / T), where t is the progress before the update. T, at which t / T is 1,
/// is given by exactly one of steps, epochs and users; the others are 0.
struct AnnealingOptions {
  /// Stands for the T with which beta reaches `cap` after 0.8 of all epochs: T = 0.8 epochs / cap.
  static constexpr double automatic = -1.0;

  double cap = 0.2;
  double steps = 0.0;  ///< updates
  double epochs = automatic;
  double users = 0.0;

  /// Returns T in epochs of a run of `train_epochs` epochs if it is automatic, else 0.
  double automatic_epochs(std::int64_t train_epochs) const {
    if (epochs != automatic) return 0.0;
    return 0.8 * static_cast<double>(train_epochs) / (cap > 0.0 ? cap : 1.0);
  }
};

/// The treatment of the last batch of an epoch if it is smaller than the others.
enum class LastBatch { keep, drop };

struct TrainOptions {
  std::int64_t epochs = 200;
  std::int64_t patience = 0;  ///< early stopping after this many validations without improvement; 0 = off
  LastBatch last_batch = LastBatch::keep;
  std::int64_t batch_size = 500;  ///< users per step over all ranks
  AnnealingOptions annealing;
  double weight_decay = 0.0;        ///< lambda of lambda / 2 * sum ||W||^2 over weights, not biases
  double clip_gradient_norm = 0.0;  ///< maximum L2 norm of the mean gradient, without weight decay; 0 = off
  std::uint64_t seed = 98765;
};

/// The options of a training: what a Trainer reads of the configuration of a run.
struct Options {
  data::DataOptions data;
  models::ModelOptions model;
  TrainOptions train;
  OptimizerOptions optimizer;
  comm::DistributedOptions distributed;
};

}  // namespace vaecf::training

template <>
inline constexpr auto vaecf::enum_names<vaecf::training::LastBatch> =
    vaecf::named<vaecf::training::LastBatch>("keep", "drop");
