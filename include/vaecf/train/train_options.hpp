#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/device/update_rule.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::train {

struct OptimizerOptions {
  device::OptimizerKind type = device::OptimizerKind::adam;
  double learning_rate = 1.0e-3;
  double beta1 = 0.9;    ///< adam: first moment
  double beta2 = 0.999;  ///< adam: second moment; rmsprop: decay of the mean square
  double epsilon = 1.0e-8;
  double momentum = 0.0;  ///< rmsprop, sgd
};

/// beta = min(cap, t / T), t = amount done before this update. Exactly one of steps, epochs, users is set:
/// the amount T at which beta would reach 1.0.
struct AnnealingOptions {
  double cap = 0.2;
  double steps = 200000;  ///< 0 when epochs or users is given
  double epochs = 0;
  double users = 0;
};

/// The short last batch of an epoch.
enum class LastBatch { keep, drop };

struct TrainOptions {
  std::int64_t epochs = 200;
  std::int64_t patience = 0;  ///< stop after this many validations without a better one; 0 = never
  LastBatch last_batch = LastBatch::keep;
  std::int64_t batch_size = 500;  ///< users per step over all ranks
  AnnealingOptions annealing;
  double weight_decay = 0.0;        ///< lambda of lambda * sum ||W||^2, weights only
  double clip_gradient_norm = 0.0;  ///< of the mean over users, without the decay's part; 0 = not clipped
  std::uint64_t seed = 98765;
};

struct ValidationOptions {
  std::int64_t every = 1;  ///< epochs; 0 = never
  std::vector<std::string> metrics = {"ndcg@100", "recall@20", "recall@50"};
  std::string select = "ndcg@100";  ///< or "last": the last epoch is the best one
};

/// How often a run writes checkpoints to go on from. At most one is above 0; none: never.
struct CheckpointEvery {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;
  double minutes = 0.0;
};

struct RunOptions {
  std::string directory = "runs";
  CheckpointEvery checkpoint_every;
  std::int64_t keep = 2;  ///< the newest of them stay, beside best.h5
};

/// What --benchmark spends its time on.
struct BenchmarkOptions {
  double seconds = 60.0;          ///< of timed steps, at most; train.epochs epochs where that is less
  double warm_up_seconds = 10.0;  ///< an epoch, or about this long where that is less
  bool evaluate = true;           ///< rank the held-out users as well
};

}  // namespace vaecf::train

template <>
inline constexpr vaecf::EnumNames<vaecf::train::LastBatch, 2> vaecf::enum_names<vaecf::train::LastBatch>{
    {{vaecf::train::LastBatch::keep, "keep"}, {vaecf::train::LastBatch::drop, "drop"}}};
