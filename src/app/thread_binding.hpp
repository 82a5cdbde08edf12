#pragma once

#include <string>

namespace vaecf::app {

/// Cores that matter to a rank's threads.
struct Cores {
  int bound = 0;      ///< this process may use
  int available = 0;  ///< its launcher may use, on this host
};

/// Asks the kernel about this process and the one that started it.
Cores look_at_cores();

/// Threads of a rank that was asked for no number: its share of the host's cores, at most those it is bound
/// to. More would fight over cores, which costs OpenMP far more than it brings.
int fair_threads(Cores cores, int ranks_on_host);

/// What to tell a user whose launcher bound ranks so tightly that threads are lost, with the flag to give;
/// empty where all is well. `wanted` threads per rank: 0 = a fair share; `running`: what the backend uses.
std::string binding_advice(Cores cores, int ranks_on_host, int wanted, int running);

}  // namespace vaecf::app
