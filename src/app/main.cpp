#include "app/program.hpp"

#include <csignal>

int main(int argc, char** argv) {
  // A limit on file sizes is then an error of `write` like a full disk, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return vaecf::app::run_program(argc, argv);
}
