#pragma once

#include <vaecf/device/options.hpp>

namespace vaecf::models {

/// The plain autoencoder.
struct AutoencoderOptions {
  device::Activation activation = device::Activation::sigmoid;  ///< all layers but the output layer have it
  device::Loss loss = device::Loss::squared;                    ///< squared: outputs are sigmoid(logits)
  double initial_deviation = 1.0;  ///< standard deviation of the initial weights and biases; above 0
};

}  // namespace vaecf::models
