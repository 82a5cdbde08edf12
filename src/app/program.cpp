#include "app/program.hpp"

#include "app/commands.hpp"

namespace vaecf::app {

int run_program(int argc, const char* const* argv) {
  CommandLine line;
  const Outcome usage = attempt([&] { line = parse_command_line(argc, argv); });
  if (!usage.ok() || line.command == Command::run) return static_cast<int>(run_on_ranks(line, usage));
  if (line.command == Command::recommend) return static_cast<int>(run_recommend(line));
  if (line.command == Command::doctor) return static_cast<int>(run_doctor(line));

  const Outcome outcome = attempt([&] {
    switch (line.command) {
      case Command::prepare:
        return run_prepare(line);
      case Command::synthesize:
        return run_synthesize(line);
      case Command::inspect:
        return run_inspect(line);
      case Command::export_model:
        return run_export(line);
      case Command::scaling:
        return run_scaling(line);
      case Command::print:
        return print(line.text);
      case Command::run:
      case Command::recommend:
      case Command::doctor:
        break;
    }
  });
  if (!outcome.ok()) complain(outcome);
  return static_cast<int>(outcome.code);
}

}  // namespace vaecf::app
