#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include "app/commands.hpp"

namespace vaecf::app {

TaskResult run_and_capture(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    return {error.code(), error.what(), error.on_all_ranks()};
  } catch (const std::filesystem::filesystem_error& error) {
    // Caused by a path of the user: a folder without search permission, a name that is too long, or a cycle
    // of symbolic links.
    const std::string path = error.path1().string();
    return {ExitCode::bad_input,
            format("{}: {}; check the path and its permissions", path, error.code().message()), false};
  } catch (const std::bad_alloc&) {
    return {
        ExitCode::failed,
        "out of memory; raise the limit (ulimit -v, the job's limit), or reduce the need: in training a smaller batch or model or more ranks, in prepare data.prepare.memory_gib",
        false};
  } catch (const std::exception& error) {
    return {ExitCode::failed, format("internal error: {}", error.what()), false};
  }
}

void print_error(const TaskResult& outcome, int rank) {
  const std::string line = rank < 0 ? format("vaecf_dist: {}\n", outcome.message)
                                    : format("vaecf_dist: rank {}: {}\n", rank, outcome.message);
  const std::string shown = escape(line);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

ExitCode agree_on_result(comm::Communicator& communicator, const TaskResult& outcome) {
  const auto mine = static_cast<std::int64_t>(outcome.code);
  // A gather instead of a reduction, because ranks with different configurations may use different all-reduce
  // algorithms.
  std::vector<std::int64_t> codes(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span<const std::int64_t>(&mine, 1), std::span<std::int64_t>(codes));
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::int64_t code = codes[static_cast<std::size_t>(rank)];
    if (code == 0) continue;
    // Errors on rank 0 usually occur on all ranks, so the message omits the rank.
    if (rank == communicator.rank()) print_error(outcome, rank == 0 ? -1 : rank);
    communicator.barrier();  // the message is printed before the first rank exits
    return static_cast<ExitCode>(code);
  }
  return ExitCode::done;
}

ExitCode abort_all_ranks(comm::Communicator& ranks, TaskResult outcome, const std::string& phase,
                         const std::function<void(const std::string& message)>& at_failure) {
  const int rank = ranks.rank();
  if (ranks.size() == 1) {
    print_error(outcome);
    if (at_failure) at_failure(outcome.message);
    return outcome.code;
  }
  const Activity::Report at = ranks.activity().report();
  outcome.message = format("{} failed: {} (on {}, in {}, step {})", phase, outcome.message, ranks.host(),
                           to_string(at.phase), at.step);
  if (outcome.on_all_ranks && rank > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(250) * std::min(rank, 8));
    print_error(outcome, rank);
    if (at_failure) at_failure(outcome.message);
  }
  ranks.abort(static_cast<int>(outcome.code));
  return outcome.code;
}

}  // namespace vaecf::app
