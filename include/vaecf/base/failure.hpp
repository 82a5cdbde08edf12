#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/error.hpp>

#include <exception>
#include <string>

namespace vaecf {

/// The cause of a failure, for programs: the field `code` of the event "failed".
enum class FailureCode {
  internal,   ///< an unknown cause
  diverged,   ///< the loss is not finite
  rank_lost,  ///< another rank ended or is not reachable
  stalled,    ///< a rank made no progress
  memory,     ///< not enough memory
  disk,       ///< a file cannot be written or read
  busy,       ///< a file or folder is in use by another process, or memory is not free
  input       ///< an InputError
};

template <>
inline constexpr auto enum_names<FailureCode> = named<FailureCode>("internal", "diverged", "rank_lost",
                                                                   "stalled", "memory", "disk", "busy",
                                                                   "input");

/// A RunError with a known cause.
class CausedError : public RunError {
 public:
  CausedError(FailureCode cause, const std::string& message) : RunError(message), cause_(cause) {}
  FailureCode cause() const { return cause_; }

 private:
  FailureCode cause_;
};

/// An input that cannot be used now, but perhaps later: a folder or file in use, or memory that is not free.
/// Nothing was changed.
class BusyError : public InputError {
 public:
  explicit BusyError(const std::string& message) : InputError(ExitCode::busy, message) {}
};

/// Returns the code of an exception, by its type.
FailureCode failure_code(const std::exception& error);

/// Throws an error with this code and message, which every rank throws.
[[noreturn]] void throw_on_all_ranks(FailureCode code, const std::string& message);

}  // namespace vaecf
