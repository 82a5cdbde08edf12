#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/run/run.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::run {

/// The test result of a model to compare with.
struct Baseline {
  std::string name;   ///< in the log: "popularity"
  std::string title;  ///< column of the table
  evaluate::EvaluationResult result;
  io::Json settings = io::Json::object();  ///< values of its keys that were chosen
};

/// A baseline that evaluation.baselines: auto leaves out.
struct LeftOut {
  std::string name;    ///< its value in evaluation.baselines
  std::string reason;  ///< "16.3 x 10^12 operations, more than 10^12 for each of 2 threads"
};

struct TestResult {
  evaluate::EvaluationResult model;
  /// The result with user features as the only input (cold start), for the same targets and candidate items;
  /// empty if the model has no features.
  std::optional<evaluate::EvaluationResult> cold_start;
  std::vector<Baseline> baselines;  ///< popularity, which recommends the most popular train items, and others
  std::int64_t epoch = 0;           ///< epoch of the checkpoint; of a solved model the number of the solution
  std::string title = {};           ///< "epoch 12", or the values of a solved model
  std::vector<LeftOut> left_out = {};  ///< in the last line of the table
  std::string split = "test";
};

/// Throws InputError if the dataset has no test user with a held-out item.
void require_test_users(const io::DatasetFile& dataset);

/// Evaluates `checkpoint` and the baselines on /test, and appends the result to metrics.jsonl. If the model
/// has user features, it is also evaluated with these alone. Writes the metrics of each user to the file
/// `per_user`, unless it is empty. Collective. Throws InputError if the dataset has no test users or the
/// checkpoint does not match.
TestResult test(const Run& run, const std::string& checkpoint, const std::string& per_user = "");

std::string to_table(const TestResult& result);

}  // namespace vaecf::run
