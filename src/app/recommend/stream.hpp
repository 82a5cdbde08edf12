#pragma once

#include "app/command_line.hpp"
#include "app/recommend/recommend_arguments.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {

/// Answers the lines of standard input, each a user as a JSON object, with a line of recommendations each on
/// standard output, in order: `recommend --stream`. A line that cannot be read gets an object with "error".
/// Lines that wait are answered together; the output is flushed when none waits. Ends at the end of the
/// input, or after the lines that were read when the process is asked to stop.
ExitCode run_stream(const CommandLine& line, const RecommendArguments& arguments);

}  // namespace vaecf::app
