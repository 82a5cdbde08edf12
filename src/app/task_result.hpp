#pragma once

#include <vaecf/base/failure.hpp>
#include <vaecf/comm/collective_checks.hpp>

#include <functional>
#include <string>

namespace vaecf::app {

/// The result of a task on this rank: success, or an exit code with the error message for the user.
struct TaskResult {
  ExitCode code = ExitCode::done;
  std::string message;
  bool on_all_ranks = false;  ///< every rank fails with the same message
  FailureCode cause = FailureCode::internal;
  bool ok() const { return code == ExitCode::done; }
};

/// Runs `work` and converts an exception into a TaskResult. All exceptions are caught here.
[[nodiscard]] TaskResult run_and_capture(const std::function<void()>& work);

/// Prints the error on one line of standard error, with the rank unless `rank` < 0.
void print_error(const TaskResult& outcome, int rank = -1);

}  // namespace vaecf::app
