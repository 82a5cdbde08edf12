#include "train/run/collective_checks.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace vaecf::train {
namespace {

/// Returns an error that every rank throws.
template <class E>
E collective_error(const std::string& message) {
  E error(message);
  error.mark_on_all_ranks();
  return error;
}

}  // namespace

void run_on_root(comm::Communicator& communicator, const std::function<void()>& work) {
  std::string message;
  auto code = static_cast<std::int64_t>(ExitCode::done);
  if (communicator.rank() == 0) {
    try {
      work();
    } catch (const Error& error) {
      message = error.what();
      code = static_cast<std::int64_t>(error.code());
    } catch (const std::exception& error) {
      message = error.what();
      code = static_cast<std::int64_t>(ExitCode::failed);
    }
  }
  communicator.broadcast(std::span<std::int64_t>(&code, 1), 0);
  if (code == static_cast<std::int64_t>(ExitCode::done)) return;
  message = communicator.broadcast_string(std::move(message), 0);
  if (code == static_cast<std::int64_t>(ExitCode::bad_input)) throw collective_error<InputError>(message);
  throw collective_error<RunError>(message);
}

bool query_root(comm::Communicator& communicator, const std::function<bool()>& question) {
  std::int64_t answer = 0;
  run_on_root(communicator, [&] { answer = question() ? 1 : 0; });
  communicator.broadcast(std::span<std::int64_t>(&answer, 1), 0);
  return answer == 1;
}

void require_equal_on_all_ranks(comm::Communicator& communicator, std::string_view text,
                                std::string_view what) {
  const auto mine = static_cast<std::int64_t>(io::xxh64(text));
  const auto lowest = communicator.all_reduce(mine, comm::Reduction::min);
  const auto highest = communicator.all_reduce(mine, comm::Reduction::max);
  if (lowest == highest) return;
  throw collective_error<InputError>(
      format("{} differs between ranks (this is rank {} of {} on {}); "
             "check that all hosts have the same files and all ranks the same command line",
             what, communicator.rank(), communicator.size(), communicator.host()));
}

}  // namespace vaecf::train
