#pragma once

#include <vaecf/base/narrow.hpp>

#include <cstdint>
#include <span>

namespace vaecf::comm {

/// sum[i] = terms[0][i] + terms[1][i] + .. for i < count, in fp32, in this order, rounded once at the end.
/// `sum` may be one of the terms.
void sum_terms(std::span<const float* const> terms, std::int64_t count, float* sum);
void sum_terms(std::span<const Bf16* const> terms, std::int64_t count, Bf16* sum);

}  // namespace vaecf::comm
