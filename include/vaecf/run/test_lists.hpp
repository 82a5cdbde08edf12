#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/run/test.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace vaecf::run {

/// The metrics of lists from any program, and what was counted.
struct ListTestResult {
  TestResult test;
  std::int64_t users_without_list = 0;  ///< among the users that count
  std::int64_t seen_places = 0;         ///< removed places with items of the user's fold-in
  /// Number of lists that are shorter than a cut-off of the metrics and than the number of items that the
  /// user has not seen, by cut-off.
  std::map<std::int32_t, std::int64_t> short_lists = {};
};

/// Evaluates lists of the users of `split`, after removing the items that a user has seen, with the metrics
/// of the run's options. `title`: what the lists are called in the table. Writes the metrics of each user as
/// test() does. The run must have one rank. Throws InputError if a metric does not exist.
ListTestResult test_lists(const Run& run, const std::string& split, evaluate::Lists lists,
                          const std::string& title, const std::string& per_user = "");

}  // namespace vaecf::run
