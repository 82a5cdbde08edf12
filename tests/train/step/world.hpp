#pragma once

#include <vaecf/train/train.hpp>

#include <functional>

namespace vaecf::train {

/// Runs `body` on thread ranks, each with its own engine. The device is selected by linking cpu_world.cpp, or
/// cuda_twin_world.cpp for the host emulation of the CUDA device.
void run_world(int ranks, const device::BackendOptions& options,
               const std::function<void(const RunContext&)>& body);

}  // namespace vaecf::train
