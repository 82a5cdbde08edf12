#pragma once

#include "platform.hpp"

namespace vaecf::cuda {

/// Makes c (m, n) of `spec` what a product is then added to: every row the bias, or the bias on top of what
/// is there where `spec.accumulate`. Without bias: zeros, or nothing to do.
void start_rows(Queue& queue, const MatmulSpec& spec, void* c, const void* bias);

}  // namespace vaecf::cuda
