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

}  // namespace

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
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return {ExitCode::failed, format("internal error: {}", error.what()), false};
    return {ExitCode::failed, format("a thread cannot be started ({}); {}", error.what(), thread_advice()),
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

}  // namespace vaecf::app
