#pragma once

#include <vaecf/train/engine.hpp>

namespace vaecf::train {

/// Makes the engine of the GPU that `options` give to this rank. Throws InputError if there is none, saying
/// exactly what is missing. Defined in cuda.cpp, or in cuda_missing.cpp without CUDA.
std::unique_ptr<Engine> make_cuda_engine(const backend::BackendOptions& options);

}  // namespace vaecf::train
