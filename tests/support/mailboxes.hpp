#pragma once

#include <vaecf/base/format.hpp>

#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace vaecf::comm {

/// Messages between threads, as copies: who sends never waits. The caller locks, and waits.
class Mailboxes {
 public:
  explicit Mailboxes(int ranks) : ranks_(ranks) {}

  void post(int from, int to, std::span<const std::byte> bytes) {
    box(to, from).emplace_back(bytes.begin(), bytes.end());
  }
  bool has(int from, int to) { return !box(to, from).empty(); }
  void take(int from, int to, std::span<std::byte> bytes) {
    auto& messages = box(to, from);
    if (messages.front().size() != bytes.size()) {
      throw std::logic_error(vaecf::format("send_recv: rank {} sent {} bytes where rank {} receives {}", from,
                                           messages.front().size(), to, bytes.size()));
    }
    std::memcpy(bytes.data(), messages.front().data(), bytes.size());
    messages.pop_front();
  }
  /// The next rank in turn that has sent `to` something; -1: none.
  int next_sender(int to) {
    int& last = last_sender_[to];
    for (int k = 1; k <= ranks_; ++k) {
      const int from = (last + k) % ranks_;
      if (has(from, to)) return last = from;
    }
    return -1;
  }

 private:
  std::deque<std::vector<std::byte>>& box(int to, int from) {
    if (to < 0 || to >= ranks_ || from < 0 || from >= ranks_) {
      throw std::logic_error(vaecf::format("send_recv: ranks {} and {} of {}", from, to, ranks_));
    }
    return boxes_[{to, from}];
  }

  int ranks_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes_;
  std::map<int, int> last_sender_;
};

}  // namespace vaecf::comm
