#pragma once

#include <stdexcept>
#include <string>

namespace vaecf {

/// What the process returns to its caller.
enum class ExitCode : int {
  done = 0,
  failed = 1,     ///< failed while running
  bad_input = 2,  ///< wrong usage, configuration or input
  stopped = 75,   ///< stopped on request with a checkpoint written: submit it again
};

/// Base of everything we throw. A message says the problem, why it is one, and what to do. Errors are caught
/// in `app/outcome.cpp`, which keeps `code()` for the exit code.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

  /// Whether every rank throws the same, so that one can speak for all.
  bool on_all_ranks() const { return on_all_ranks_; }
  void mark_on_all_ranks() { on_all_ranks_ = true; }

 private:
  ExitCode code_;
  bool on_all_ranks_ = false;
};

/// The user's command line, configuration or files are at fault.
class InputError : public Error {
 public:
  explicit InputError(const std::string& message) : Error(ExitCode::bad_input, message) {}
};

/// Something broke while running: a disk that fills up, a loss that is no number.
class RunError : public Error {
 public:
  explicit RunError(const std::string& message) : Error(ExitCode::failed, message) {}
};

}  // namespace vaecf
