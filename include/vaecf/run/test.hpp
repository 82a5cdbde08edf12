#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/run.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::run {

/// The test result of a model to compare with.
struct Baseline {
  std::string name;   ///< prefix of its metrics in the log: "item_knn"
  std::string title;  ///< column of the table: "EASE l2 500"
  evaluate::EvaluationResult result;
};

/// A baseline that validation.baselines: auto leaves out.
struct LeftOut {
  std::string name;    ///< its value in validation.baselines: "ease"
  std::string reason;  ///< "16.3 x 10^12 operations, more than 10^12 for each of 2 threads"
};

struct TestResult {
  evaluate::EvaluationResult model;
  /// The result with user features as the only input (cold start), for the same targets and candidate items;
  /// empty if the model has no features.
  std::optional<evaluate::EvaluationResult> cold_start;
  std::vector<Baseline> baselines;  ///< popularity, which recommends the most popular train items, and others
  std::int64_t epoch = 0;           ///< epoch of the checkpoint; of a solved model the number of the solution
  std::string title = {};           ///< "epoch 12", or the values of a solved model: "EASE l2 500"
  std::vector<LeftOut> left_out = {};  ///< in the last line of the table
  std::string split = "test";
};

/// The metrics of lists from any program, and what was counted.
struct ListTestResult {
  TestResult test;
  std::int64_t users_without_list = 0;  ///< among the users that count
  std::int64_t seen_places = 0;         ///< removed places with items of the user's fold-in
  /// Number of lists that are shorter than a cut-off of the metrics and than the number of items that the
  /// user has not seen, by cut-off.
  std::map<std::int32_t, std::int64_t> short_lists = {};
};

/// The test of one of several runs that differ by their seed only.
struct SeedTest {
  std::uint64_t seed = 0;
  std::int64_t users = 0;
  evaluate::Metrics metrics;
};

/// Throws InputError if the dataset has no test user with a held-out item.
void require_test_users(const io::DatasetFile& dataset);

/// Evaluates `checkpoint` and the baselines on /test, and appends the result to metrics.jsonl. If the model
/// has user features, it is also evaluated with these alone. Writes the metrics of each user to the file
/// `per_user`, unless it is empty. Collective. Throws InputError if the dataset has no test users or the
/// checkpoint does not match.
TestResult test(const Run& run, const std::string& checkpoint, const std::string& per_user = "");

/// Evaluates lists of the users of `split`, after removing the items that a user has seen, with the metrics
/// of the run's options. `title`: what the lists are called in the table. Writes the metrics of each user as
/// test() does. The run must have one rank. Throws InputError if a metric does not exist.
ListTestResult test_lists(const Run& run, const std::string& split, evaluate::Lists lists,
                          const std::string& title, const std::string& per_user = "");
std::string to_table(const TestResult& result);
/// Formats at least two tests: a row per metric, with the mean, the standard deviation with the divisor
/// n - 1, and the value of each seed.
std::string to_table(const std::vector<SeedTest>& tests);

}  // namespace vaecf::run
