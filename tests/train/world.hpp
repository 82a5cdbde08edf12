#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/train/session.hpp>

#include <functional>

namespace vaecf::train {

/// Runs `body` on ranks as threads, each with a backend of its own. Which backend that is, is decided where a
/// program is linked: cpu_world.cpp, or cuda_twin_world.cpp for the CUDA backend's twin on the host.
void run_world(int ranks, const backend::BackendOptions& options,
               const std::function<void(const Services&)>& body);

}  // namespace vaecf::train
