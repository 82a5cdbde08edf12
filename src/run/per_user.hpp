#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/run/test.hpp>

#include <string>

namespace vaecf::run {

/// Writes the metrics of each user in the results of a test, which `evaluator` made, to the file `path`.
/// `origin`: attributes of the file that describe the model. Collective.
void write_per_user(const Run& run, evaluate::Evaluator& evaluator, const TestResult& result,
                    const std::string& path, io::Attributes origin);

}  // namespace vaecf::run
