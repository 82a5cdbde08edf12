#pragma once

#include <poll.h>

#include <cstddef>
#include <vector>

#include "neighbours.hpp"

namespace vaecf::comm {

/// Sees at once when a rank of this host is gone that did not leave in order, and says whose turn it is to
/// tell. Times of a steady clock, in seconds.
class Deaths {
 public:
  /// `neighbours` outlives this; none: there is nobody to watch.
  Deaths(const Neighbours* neighbours, int rank);

  /// Sleeps for `seconds`, or until `alarm` can be read, somebody dies or a signal comes.
  void sleep(double seconds, int alarm);

  /// Indices in neighbours.others() of the dead, once it falls to this rank to tell of them and to end the
  /// run: to the lowest rank of this host that lives; to the next ones only where that hangs.
  std::vector<std::size_t> due();

 private:
  struct Death {
    std::size_t other = 0;
    double at = 0.0;
  };
  double patience() const;

  const Neighbours* neighbours_;
  int rank_;
  std::vector<pollfd> polled_;  // the alarm, then the others
  std::vector<Death> deaths_;
};

}  // namespace vaecf::comm
