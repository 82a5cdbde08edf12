#include <vaecf/base/failure.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>

#include <utility>

namespace vaecf::comm {

void run_on_root(Communicator& communicator, const std::function<void()>& work) {
  std::string message;
  constexpr std::int64_t none = -1;
  std::int64_t code = none;
  if (communicator.rank() == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      message = error.what();
      code = static_cast<std::int64_t>(failure_code(error));
    }
  }
  communicator.broadcast(std::span<std::int64_t>(&code, 1), 0);
  if (code == none) return;
  message = communicator.broadcast_string(std::move(message), 0);
  throw_on_all_ranks(static_cast<FailureCode>(code), message);
}

bool query_root(Communicator& communicator, const std::function<bool()>& question) {
  std::int64_t answer = 0;
  run_on_root(communicator, [&] { answer = question() ? 1 : 0; });
  communicator.broadcast(std::span<std::int64_t>(&answer, 1), 0);
  return answer == 1;
}

void require_equal_on_all_ranks(Communicator& communicator, std::string_view text, std::string_view what) {
  const bool equal = communicator.broadcast_string(std::string(text), 0) == text;
  if (communicator.all_reduce(std::int64_t{equal}, Reduction::min) == 1) return;
  throw on_all_ranks(
      InputError(format("{} differs between ranks (this is rank {} of {} on {}); "
                        "check that all hosts have the same files and all ranks the same command line",
                        what, communicator.rank(), communicator.size(), communicator.host())));
}

}  // namespace vaecf::comm
