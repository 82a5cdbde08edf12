#include "heartbeats.hpp"

#include <type_traits>

#include "mpi_check.hpp"

namespace vaecf::comm {
namespace {

constexpr int heartbeat_tag = 0;

/// Also moves MPI's own work on.
bool completed(MPI_Request& request) {
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace

Heartbeats::Heartbeats(int rank, int size, const WatchLimits& limits, double now)
    : rank_(rank), interval_(limits.heartbeat), asked_(now - limits.heartbeat) {
  static_assert(std::is_trivially_copyable_v<Message>);
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  const int known = rank == 0 ? size : 1;
  lines_.resize(static_cast<std::size_t>(known));
  for (int r = 0; r < known; ++r) {
    followers_.emplace_back(r, now, limits.quiet());
    states_.push_back(followers_.back().state());
  }
  for (int r = 1; r < known; ++r) receive(r, lines_[static_cast<std::size_t>(r)]);
}

void Heartbeats::receive(int from, Line& line) {
  check_mpi(MPI_Irecv(&line.in, sizeof(Message), MPI_BYTE, from, heartbeat_tag, comm_, &line.receiving),
            "MPI_Irecv");
}

void Heartbeats::send(int to, Line& line, const Pulse& own, bool last) {
  line.out = {own, last ? 1 : 0};
  check_mpi(MPI_Isend(&line.out, sizeof(Message), MPI_BYTE, to, heartbeat_tag, comm_, &line.sending),
            "MPI_Isend");
}

void Heartbeats::hear(std::size_t index, double now) {
  followers_[index].hear(lines_[index].in.pulse, now);
  states_[index] = followers_[index].state();
  // Whether rank 0 moves is for rank 0 to judge, who knows all others: that it lives will do.
  if (rank_ != 0) states_[index].moved = now;
}

void Heartbeats::tick(const Pulse& own, double now) {
  if (rank_ == 0) {
    serve(own, now);
  } else {
    ask(own, now);
  }
}

void Heartbeats::serve(const Pulse& own, double now) {
  followers_[0].hear(own, now);
  states_[0] = followers_[0].state();
  for (std::size_t r = 1; r < lines_.size(); ++r) {
    Line& line = lines_[r];
    // Two at most: who was answered may have sent again, and a last message may follow.
    while (!line.parted && completed(line.sending) && completed(line.receiving)) {
      if (line.in.last != 0) {
        line.parted = true;
        break;
      }
      hear(r, now);
      receive(static_cast<int>(r), line);
      send(static_cast<int>(r), line, own, false);
    }
  }
}

bool Heartbeats::answered(double now) {
  Line& line = lines_[0];
  if (line.receiving == MPI_REQUEST_NULL) return true;
  if (!completed(line.receiving)) return false;
  hear(0, now);
  return true;
}

void Heartbeats::ask(const Pulse& own, double now) {
  Line& line = lines_[0];
  if (!answered(now) || now - asked_ < interval_ || !completed(line.sending)) return;
  receive(0, line);
  send(0, line, own, false);
  asked_ = now;
}

bool Heartbeats::part(const Pulse& own, double now) {
  if (rank_ == 0) {
    serve(own, now);
    for (std::size_t r = 1; r < lines_.size(); ++r) {
      if (!lines_[r].parted || !completed(lines_[r].sending)) return false;
    }
    return true;
  }
  Line& line = lines_[0];
  if (!answered(now) || !completed(line.sending)) return false;
  if (!line.parted) {
    send(0, line, own, true);
    line.parted = true;
  }
  return completed(line.sending);
}

void Heartbeats::close() {
  if (comm_ != MPI_COMM_NULL) check_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free");
}

}  // namespace vaecf::comm
