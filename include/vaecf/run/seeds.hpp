#pragma once

#include <vaecf/evaluate/evaluator.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::run {

/// The test of one of several runs that differ by their seed only.
struct SeedTest {
  std::uint64_t seed = 0;
  std::int64_t users = 0;
  evaluate::Metrics metrics;
};

/// Formats at least two tests: a row per metric, with the mean, the standard deviation with the divisor
/// n - 1, and the value of each seed.
std::string to_table(const std::vector<SeedTest>& tests);

}  // namespace vaecf::run
