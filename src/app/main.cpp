#include <fcntl.h>

#include <cerrno>
#include <csignal>

#include "app/command_line.hpp"
#include "app/rank_session.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {
namespace {

/// Opens /dev/null for closed standard streams. Otherwise the next file that is opened would get the
/// descriptor of the closed stream, and log lines would be written to it.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
}

/// Parses argv, runs the command, and returns the exit code. Only one rank prints an error of usage.
int run_program(int argc, const char* const* argv) {
  ExitCode code = ExitCode::done;
  const TaskResult outcome = run_and_capture([&] {
    CommandLine line;
    const TaskResult usage = run_and_capture([&] {
      line = parse_command_line(argc, argv);
      find_config(line);
    });
    code = usage.ok() ? line.run(line) : RankSession(make_communicator()).together(usage);
  });
  if (outcome.ok()) return static_cast<int>(code);
  print_error(outcome);
  return static_cast<int>(outcome.code);
}

}  // namespace
}  // namespace vaecf::app

int main(int argc, char** argv) {
  vaecf::app::open_standard_streams();
  // With SIGXFSZ ignored, exceeding the file-size limit is an error of `write`, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  return vaecf::app::run_program(argc, argv);
}
