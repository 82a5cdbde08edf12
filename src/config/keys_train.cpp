#include "config/key_making.hpp"

namespace vaecf::config {

void add_train_keys(Keys& keys) {
  add(keys, "train.epochs", FIELD(session.train.epochs), "passes over the train users", at_least<i64>(1));
  add(keys, "train.patience", FIELD(session.train.patience),
      "stop after this many validations without a better one; 0: never", at_least<i64>(0));
  add(keys, "train.last_batch", FIELD(session.train.last_batch), "the short last batch of an epoch");
  add(keys, "train.batch_size", FIELD(session.train.batch_size), "users per step over all ranks",
      at_least<i64>(1));
  add(keys, "train.optimizer.type", FIELD(session.optimizer.type), "how weights move");
  add(keys, "train.optimizer.learning_rate", FIELD(session.optimizer.learning_rate),
      "step size, not scaled with ranks", positive());
  add(keys, "train.optimizer.beta1", FIELD(session.optimizer.beta1), "adam: decay of the first moment",
      fraction_below_one());
  add(keys, "train.optimizer.beta2", FIELD(session.optimizer.beta2),
      "adam: decay of the second moment; rmsprop: of the mean square", fraction_below_one());
  add(keys, "train.optimizer.epsilon", FIELD(session.optimizer.epsilon),
      "adam, rmsprop: keeps the divisor above 0", positive());
  add(keys, "train.optimizer.momentum", FIELD(session.optimizer.momentum), "rmsprop, sgd",
      fraction_below_one());
  add(keys, "train.annealing.cap", FIELD(session.train.annealing.cap),
      "weight of the KL term: beta = min(cap, t / T)", at_least(0.0));
  add_alternative(keys, "train.annealing.steps", FIELD(session.train.annealing.steps),
                  "T in updates; give exactly one of steps, epochs, users", positive());
  add_alternative(keys, "train.annealing.epochs", FIELD(session.train.annealing.epochs),
                  "T in epochs, the same curve at any batch size", positive());
  add_alternative(keys, "train.annealing.users", FIELD(session.train.annealing.users), "T in users seen",
                  positive());
  add(keys, "train.weight_decay", FIELD(session.train.weight_decay),
      "lambda of lambda * sum of squared weights, part of the loss", at_least(0.0));
  add(keys, "train.clip_gradient_norm", FIELD(session.train.clip_gradient_norm),
      "gradients (means over users, without weight decay's part) of a larger norm are scaled down to it; 0: "
      "off; costs a pass over the gradient, and updates wait for all of it",
      at_least(0.0));
  add(keys, "train.precision", FIELD(backend.precision),
      "of the products; auto: bf16 on CUDA and CPUs with AMX, else fp32; fp16 and tf32 need CUDA");
  add(keys, "train.seed", FIELD(session.train.seed),
      "of initialisation, dropout, latent noise and shuffling");
  add(keys, "train.deterministic", FIELD(backend.deterministic),
      "two runs on the same machines, ranks and threads give the same bits, on GPUs too, where that costs "
      "speed: no products tried out for the fastest, no sums that depend on timing, one algorithm between "
      "GPUs");
}

}  // namespace vaecf::config
