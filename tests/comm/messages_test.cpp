// Tests point-to-point messages between thread ranks and between MPI ranks.
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/messages.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/communicators.hpp"

namespace vaecf::comm {
namespace {

std::vector<std::int64_t> letter(int from, int to, std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = 1000 * from + 100 * to + i;
  return values;
}

template <class T>
SendBuffer to(int rank, const std::vector<T>& values) {
  return {rank, std::as_bytes(std::span(values))};
}
template <class T>
RecvBuffer from(int rank, std::vector<T>& values) {
  return {rank, std::as_writable_bytes(std::span(values))};
}

void on_messages(const std::function<void(Communicator&, Messages&)>& body) {
  for_each_communicator([&](Communicator& comm) {
    if (comm.size() == 1) return;
    body(comm, *messages_of(comm));
  });
}

TEST(Messages, ConcurrentMessagesOfAnySizeKeepTheirOrder) {
  on_messages([](Communicator& comm, Messages& messages) {
    const std::vector<std::int64_t> sizes = message_sizes(comm.size());
    std::vector<std::vector<std::int64_t>> sent;
    std::vector<std::vector<std::int64_t>> received;
    for (const std::int64_t size : sizes) {
      for (int r = 0; r < comm.size(); ++r) {
        sent.push_back(letter(comm.rank(), r, size));
        received.emplace_back(sent.back().size());
      }
    }
    std::vector<SendBuffer> out;
    std::vector<RecvBuffer> in;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const int rank = static_cast<int>(i) % comm.size();
      out.push_back(to(rank, sent[i]));
      in.push_back(from(rank, received[i]));
    }
    messages.send_recv(out, in);
    for (std::size_t i = 0; i < received.size(); ++i) {
      const auto ranks = static_cast<std::size_t>(comm.size());
      EXPECT_EQ(received[i], letter(static_cast<int>(i % ranks), comm.rank(), sizes[i / ranks]));
    }
  });
}

TEST(Messages, ProbeReturnsEachSenderOnce) {
  on_messages([](Communicator& comm, Messages& messages) {
    const std::vector<std::int64_t> mine = {comm.rank()};
    comm.barrier();
    if (comm.rank() > 0) return messages.send_recv(std::vector<SendBuffer>{to(0, mine)}, {});
    std::vector<int> senders;
    for (int r = 1; r < comm.size(); ++r) {
      const int rank = messages.probe_any();
      std::vector<std::int64_t> theirs(1);
      messages.send_recv({}, std::vector<RecvBuffer>{from(rank, theirs)});
      EXPECT_EQ(theirs[0], rank);
      senders.push_back(rank);
    }
    std::ranges::sort(senders);
    for (int r = 1; r < comm.size(); ++r) EXPECT_EQ(senders[static_cast<std::size_t>(r - 1)], r);
  });
}

}  // namespace
}  // namespace vaecf::comm
