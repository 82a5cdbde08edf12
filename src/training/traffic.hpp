#pragma once

#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/training/options.hpp>
#include <vaecf/training/trainer.hpp>

#include <span>

#include "training/gradient_exchange.hpp"

namespace vaecf::training {

/// Returns the bytes that a step with all-reduce on `device` sends, as a mean over the parameter groups of an
/// epoch.
CommVolume comm_volume(const Options& options, const comm::RankGrid& grid, const device::DeviceFacts& device,
                       models::TrainableModel& model, const GradientExchange& exchange);

/// Returns TrainingFacts::update_bytes, as a mean over the parameter groups of an epoch. The backward pass
/// updates the tensors `fused`. `on_gpu`: the device is a GPU.
double update_bytes(const models::ModelOptions& options, const comm::RankGrid& grid,
                    models::TrainableModel& model, const GradientExchange& exchange,
                    std::span<const int> fused, bool on_gpu);

}  // namespace vaecf::training
