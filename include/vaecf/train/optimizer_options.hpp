#pragma once

#include <vaecf/device/update_rule.hpp>

namespace vaecf::train {

struct OptimizerOptions {
  device::OptimizerKind type = device::OptimizerKind::adam;
  double learning_rate = 1.0e-3;
  double beta1 = 0.9;    ///< adam: first moment
  double beta2 = 0.999;  ///< adam: second moment; rmsprop: decay of the mean square
  double epsilon = 1.0e-8;
  double momentum = 0.0;  ///< rmsprop, sgd
};

}  // namespace vaecf::train
