#pragma once

#include <vaecf/backend/backend.hpp>

#include <memory>
#include <string>

namespace vaecf::cpu {

/// The backend on this machine's cores as `options` ask for it. InputError for a precision that no CPU has,
/// and then also `why_no_gpu`. Unlike backend::make_backend, it does not bring the GPU's libraries into a
/// program, whose loading takes longer than most tests.
std::unique_ptr<backend::Backend> make_cpu_backend(const backend::BackendOptions& options,
                                                   const std::string& why_no_gpu = "");

}  // namespace vaecf::cpu
