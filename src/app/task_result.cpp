#include "app/task_result.hpp"

#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

namespace vaecf::app {
namespace {

/// Returns what to do if the system refuses a thread.
std::string thread_advice() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return format(
      "raise the limit of this user's processes and threads (RLIMIT_NPROC, ulimit -u), which is {}, or that of the container or job (pids.max), or set backend.threads or start fewer ranks",
      limited ? format("{}", limit.rlim_cur) : "not set");
}

/// Returns the exit code of an exception, and its message for the user.
TaskResult result_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error))
    return {known->code(), known->what(), known->on_all_ranks()};
  if (const auto* of_path = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    // Caused by a path of the user: a folder without search permission, a name that is too long, or a cycle
    // of symbolic links.
    return {ExitCode::bad_input, format("{}: {}; check the path and its permissions",
                                        of_path->path1().string(), of_path->code().message())};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {
        ExitCode::failed,
        "out of memory; raise the limit (ulimit -v, the job's limit), or reduce the need: in training a smaller batch or model or more ranks, in prepare data.prepare.memory_gib"};
  }
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again)
    return {ExitCode::failed, format("a thread cannot be started ({}); {}", error.what(), thread_advice())};
  return {ExitCode::failed, format("internal error: {}", error.what())};
}

}  // namespace

TaskResult run_and_capture(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    TaskResult result = result_of(error);
    result.cause = failure_code(error);
    return result;
  }
}

void print_error(const TaskResult& outcome, int rank) {
  const std::string line = rank < 0 ? format("vaecf_dist: {}\n", outcome.message)
                                    : format("vaecf_dist: rank {}: {}\n", rank, outcome.message);
  const std::string shown = escape(line);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

}  // namespace vaecf::app
