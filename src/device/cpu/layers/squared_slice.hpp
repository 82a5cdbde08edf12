#pragma once

#include <memory>
#include <span>

#include "device/cpu/layers/softmax_slice.hpp"

namespace vaecf::cpu {

/// Makes a slice of the output layer with sigmoid and the mean squared error.
std::unique_ptr<LossSlice> make_squared_slice(std::span<const std::unique_ptr<GemmEngine>> engines,
                                              Workspace& workspace, const OutputSlice& slice);

}  // namespace vaecf::cpu
