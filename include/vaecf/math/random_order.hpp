#pragma once

#include <vaecf/math/metrics.hpp>

#include <cstdint>

namespace vaecf::math {

/// Returns the expectation of `metric` of one user whose `targets` targets are among `candidates` items in
/// random order, all orders being equally likely. `metric` must not be one of lists.
double expectation_of_random_order(const Metric& metric, std::int64_t targets, std::int64_t candidates);

}  // namespace vaecf::math
