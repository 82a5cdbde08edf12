#pragma once

#include <mpi.h>

#include <vector>

#include "pulse.hpp"

namespace vaecf::comm {

/// Ranks other than 0 send rank 0 their pulse, and it answers each with its own; the next goes out only when
/// the last was answered, so nothing piles up before a rank that is stopped. Nothing here waits. After its
/// making it is used by one thread, beside any other use of MPI.
class Heartbeats {
 public:
  /// Collective.
  Heartbeats(int rank, int size, const WatchLimits& limits, double now);

  /// Sends and receives what there is.
  void tick(const Pulse& own, double now);
  /// What is known: on rank 0 of all ranks, itself included; elsewhere of rank 0.
  const std::vector<RankState>& states() const { return states_; }

  /// After every rank has begun to part: one more step towards the last message. True when it is through.
  bool part(const Pulse& own, double now);
  /// Collective, after all parted.
  void close();

 private:
  void hear(std::size_t index, double now);
  void serve(const Pulse& own, double now);
  void ask(const Pulse& own, double now);
  bool answered(double now);

  struct Message {
    Pulse pulse;
    std::int64_t last = 0;  ///< 1: no answer wanted, none follows
  };
  struct Line {  // to one other rank
    Message in;
    Message out;
    MPI_Request receiving = MPI_REQUEST_NULL;
    MPI_Request sending = MPI_REQUEST_NULL;
    bool parted = false;
  };
  void receive(int from, Line& line);
  void send(int to, Line& line, const Pulse& own, bool last);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_;
  double interval_;
  double asked_;
  std::vector<Line> lines_;  // rank 0: by rank, its own unused; else one, to rank 0
  std::vector<Follower> followers_;
  std::vector<RankState> states_;
};

}  // namespace vaecf::comm
