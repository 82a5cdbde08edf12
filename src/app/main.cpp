#include "app/program.hpp"

#include <fcntl.h>

#include <cerrno>
#include <csignal>

namespace {

/// The next file that is opened would take the place of a closed one, and what is said would go there.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // A limit on file sizes is then an error of `write` like a full disk, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return vaecf::app::run_program(argc, argv);
}
