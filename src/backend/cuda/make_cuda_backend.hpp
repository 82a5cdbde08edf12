#pragma once

#include <vaecf/backend/backend.hpp>

#include <memory>

namespace vaecf::cuda {

/// The backend on the GPU that `options` give to this rank. InputError where there is none, saying exactly
/// what is missing.
std::unique_ptr<backend::Backend> make_cuda_backend(const backend::BackendOptions& options);

}  // namespace vaecf::cuda
