#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/device/options.hpp>

#include <functional>

namespace vaecf::training {

/// Runs `body` on thread ranks, each with its own device. The device is selected by linking
/// run_on_ranks_cpu.cpp, or run_on_ranks_cuda_emulator.cpp for the host emulation of the CUDA device.
void run_on_ranks(int ranks, const device::BackendOptions& options,
                  const std::function<void(const Context&)>& body);
/// Whether the devices of run_on_ranks are emulated GPUs.
extern const bool on_emulator;

}  // namespace vaecf::training
