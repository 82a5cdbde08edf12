#include "config/key_making.hpp"

namespace vaecf::config {

void add_train_keys(Keys& keys) {
  keys.push_back(make_key(
      "train.epochs", [](Config & c) -> auto& { return c.session.train.epochs; },
      "passes over the train users", at_least<i64>(1)));
  keys.push_back(make_key(
      "train.patience", [](Config & c) -> auto& { return c.session.train.patience; },
      "stop after this many validations without a better one; 0: never", at_least<i64>(0)));
  keys.push_back(make_key(
      "train.last_batch", [](Config & c) -> auto& { return c.session.train.last_batch; },
      "the short last batch of an epoch", one_of({"keep", "drop"})));
  keys.push_back(make_key(
      "train.batch_size", [](Config & c) -> auto& { return c.session.train.batch_size; },
      "users per step over all ranks", at_least<i64>(1)));
  keys.push_back(make_key(
      "train.optimizer.type", [](Config & c) -> auto& { return c.session.optimizer.type; },
      "how weights move", one_of({"adam", "rmsprop", "sgd"})));
  keys.push_back(make_key(
      "train.optimizer.learning_rate", [](Config & c) -> auto& { return c.session.optimizer.learning_rate; },
      "step size, not scaled with ranks", positive()));
  keys.push_back(make_key(
      "train.optimizer.beta1", [](Config & c) -> auto& { return c.session.optimizer.beta1; },
      "adam: decay of the first moment", fraction_below_one()));
  keys.push_back(make_key(
      "train.optimizer.beta2", [](Config & c) -> auto& { return c.session.optimizer.beta2; },
      "adam: decay of the second moment; rmsprop: of the mean square", fraction_below_one()));
  keys.push_back(make_key(
      "train.optimizer.epsilon", [](Config & c) -> auto& { return c.session.optimizer.epsilon; },
      "adam, rmsprop: keeps the divisor above 0", positive()));
  keys.push_back(make_key(
      "train.optimizer.momentum", [](Config & c) -> auto& { return c.session.optimizer.momentum; },
      "rmsprop, sgd", fraction_below_one()));
  keys.push_back(make_key("train.annealing.cap",
                          [](Config & c) -> auto& { return c.session.train.annealing.cap; },
                          "weight of the KL term: beta = min(cap, t / T)",
                          {"at least 0", [](const double& v) { return v >= 0; }}));
  keys.push_back(make_alternative(
      "train.annealing.steps", [](Config & c) -> auto& { return c.session.train.annealing.steps; },
      "T in updates; give exactly one of steps, epochs, users", positive()));
  keys.push_back(make_alternative(
      "train.annealing.epochs", [](Config & c) -> auto& { return c.session.train.annealing.epochs; },
      "T in epochs, the same curve at any batch size", positive()));
  keys.push_back(make_alternative(
      "train.annealing.users", [](Config & c) -> auto& { return c.session.train.annealing.users; },
      "T in users seen", positive()));
  keys.push_back(make_key("train.weight_decay",
                          [](Config & c) -> auto& { return c.session.train.weight_decay; },
                          "lambda of lambda * sum of squared weights, part of the loss",
                          {"at least 0", [](const double& v) { return v >= 0; }}));
  keys.push_back(make_key(
      "train.clip_gradient_norm", [](Config & c) -> auto& { return c.session.train.clip_gradient_norm; },
      "gradients (means over users, without weight decay's part) of a larger norm are scaled down to it; 0: "
      "off; costs a pass over the gradient, and updates wait for all of it",
      at_least(0.0)));
  keys.push_back(make_key(
      "train.precision", [](Config & c) -> auto& { return c.backend.precision; },
      "of the products; auto: bf16 on CUDA and CPUs with AMX, else fp32; fp16 and tf32 need CUDA"));
  keys.push_back(make_key(
      "train.seed", [](Config & c) -> auto& { return c.session.train.seed; },
      "of initialisation, dropout, latent noise and shuffling"));
  keys.push_back(make_key(
      "train.deterministic", [](Config & c) -> auto& { return c.backend.deterministic; },
      "two runs on the same machines, ranks and threads give the same bits, on GPUs too, where that costs "
      "speed: no products tried out for the fastest, no sums that depend on timing, one algorithm between "
      "GPUs"));
}

}  // namespace vaecf::config
