#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <map>

#include "app/commands.hpp"

namespace vaecf::app {
namespace {

/// Opens /dev/null for closed standard streams. Otherwise the next file that is opened would get the
/// descriptor of the closed stream, and log lines would be written to it.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
  }
}

/// Parses argv, runs the command, and returns the exit code.
int run_program(int argc, const char* const* argv) {
  CommandLine line;
  const TaskResult usage = run_and_capture([&] { line = parse_command_line(argc, argv); });
  const std::map<Command, void (*)(const CommandLine&)> alone = {{Command::prepare, run_prepare},
                                                                 {Command::synthesize, run_synthesize},
                                                                 {Command::similar, run_similar},
                                                                 {Command::inspect, run_inspect},
                                                                 {Command::export_model, run_export}};
  ExitCode code = ExitCode::done;
  const TaskResult outcome = run_and_capture([&] {
    if (!usage.ok() || line.command == Command::run) {
      code = run_on_ranks(line, usage);
    } else if (line.command == Command::recommend) {
      code = run_recommend(line);
    } else if (line.command == Command::doctor) {
      code = run_doctor(line);
    } else if (line.command == Command::print) {
      print(line.text);
    } else {
      alone.at(line.command)(line);
    }
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
