#pragma once

namespace vaecf::app {

/// The whole program: argv in, exit code out. Throws nothing.
int run_program(int argc, const char* const* argv);

}  // namespace vaecf::app
