#pragma once

#include <vaecf/base/text.hpp>

#include <stdexcept>
#include <string>

namespace vaecf {

/// Exit code of the process.
enum class ExitCode : int {
  done = 0,
  failed = 1,     ///< run-time error
  bad_input = 2,  ///< wrong usage, configuration or input
  busy = 3,       ///< could not start now, and nothing was changed; the same command may succeed later
  stopped = 75,   ///< stopped on request with a checkpoint written; resubmit the job to continue
};

/// Base class of all exceptions of this program. The message states the problem, its cause and what to do.
/// Errors are caught in `app/rank_session.cpp`, which returns code() as the exit code.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

  /// Returns whether every rank throws this error, so that only one rank needs to print it.
  bool on_all_ranks() const { return on_all_ranks_; }
  void mark_on_all_ranks() { on_all_ranks_ = true; }

 private:
  ExitCode code_;
  bool on_all_ranks_ = false;
};

/// An error in the user's command line, configuration or files.
class InputError : public Error {
 public:
  explicit InputError(const std::string& message) : Error(ExitCode::bad_input, message) {}

 protected:
  InputError(ExitCode code, const std::string& message) : Error(code, message) {}
};

/// An error at run time, for example a full disk or a loss that is NaN or infinite.
class RunError : public Error {
 public:
  explicit RunError(const std::string& message) : Error(ExitCode::failed, message) {}
};

}  // namespace vaecf
