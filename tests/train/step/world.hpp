#pragma once

#include <vaecf/train/session.hpp>

#include <functional>

namespace vaecf::train {

/// Runs `body` on ranks as threads, each with an engine of its own. Which device that has, is decided where a
/// program is linked: cpu_world.cpp, or cuda_twin_world.cpp for the twin of the CUDA device on the host.
void run_world(int ranks, const device::BackendOptions& options,
               const std::function<void(const Services&)>& body);

}  // namespace vaecf::train
