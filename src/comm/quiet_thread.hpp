#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace vaecf::comm {

/// A thread that no signal is handled in: they are for the threads that know what to do with them.
template <class Work>
std::thread quiet_thread(Work work) {
  struct Masked {
    Masked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Masked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const Masked masked;
  return std::thread(std::move(work));
}

}  // namespace vaecf::comm
