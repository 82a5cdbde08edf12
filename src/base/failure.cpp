#include <vaecf/base/failure.hpp>

#include <filesystem>
#include <new>

namespace vaecf {
namespace {

template <class E>
[[noreturn]] void throw_marked(E error) {
  error.mark_on_all_ranks();
  throw error;
}

}  // namespace

FailureCode failure_code(const std::exception& error) {
  if (const auto* caused = dynamic_cast<const CausedError*>(&error)) return caused->cause();
  if (dynamic_cast<const BusyError*>(&error) != nullptr) return FailureCode::busy;
  if (dynamic_cast<const InputError*>(&error) != nullptr) return FailureCode::input;
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return FailureCode::input;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return FailureCode::memory;
  return FailureCode::internal;
}

void throw_on_all_ranks(FailureCode code, const std::string& message) {
  switch (code) {
    case FailureCode::input:
      throw_marked(InputError(message));
    case FailureCode::busy:
      throw_marked(BusyError(message));
    case FailureCode::internal:
      throw_marked(RunError(message));
    default:
      throw_marked(CausedError(code, message));
  }
}

}  // namespace vaecf
