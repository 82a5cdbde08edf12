#include "support/thread_communicator.hpp"

#include "support/mailboxes.hpp"
#include "support/started_collective.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/comm/parameter_server/messages.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace vaecf::comm {
namespace {

/// What a rank brings to a collective.
struct Offer {
  const char* call = nullptr;
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;
  int detail = 0;  // root, or element type and reduction

  bool matches(const Offer& other) const {
    return std::strcmp(call, other.call) == 0 && count == other.count && detail == other.detail;
  }
};

template <class T>
T combine(T a, T b, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return static_cast<T>(a + b);
    case Reduction::max:
      return std::max(a, b);
    case Reduction::min:
      return std::min(a, b);
  }
  throw std::logic_error("unknown reduction");
}

class World {
 public:
  explicit World(int ranks)
      : offers(static_cast<std::size_t>(ranks)), size_(ranks), left_(static_cast<std::size_t>(ranks)) {}

  std::vector<Offer> offers;  // one per rank, stable between two barriers
  int size() const { return size_; }

  void barrier() {
    std::unique_lock lock(mutex_);
    check_alive();
    if (std::ranges::find(left_, true) != left_.end()) fail_left();
    const std::int64_t mine = generation_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++generation_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] {
      return generation_ != mine || aborted_ || std::ranges::find(left_, true) != left_.end();
    });
    if (generation_ != mine) return;
    check_alive();
    fail_left();
  }

  void start(std::int64_t number, int rank, const StartedCall& call) {
    const std::lock_guard lock(mutex_);
    check_alive();
    StartedCollective& collective = started_.try_emplace(number, size_).first->second;
    collective.post(rank, call);
    if (collective.done()) changed_.notify_all();
  }

  void wait(std::int64_t number, int rank, std::span<std::byte> output) {
    std::unique_lock lock(mutex_);
    const auto found = started_.find(number);
    const auto somebody_left_before = [&] {
      return std::ranges::any_of(next_ticket_of_left_,
                                 [&](const auto& left) { return left.second <= number; });
    };
    changed_.wait(lock, [&] { return found->second.done() || aborted_ || somebody_left_before(); });
    if (!found->second.done()) {
      check_alive();
      fail_left();
    }
    if (found->second.collect(rank, output)) started_.erase(found);
  }

  void post(int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    check_alive();
    mail_.post(from, to, bytes);
    changed_.notify_all();
  }

  void collect(int from, int to, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return mail_.has(from, to) || aborted_ || left_[static_cast<std::size_t>(from)]; });
    check_alive();
    if (!mail_.has(from, to)) fail_left();
    mail_.take(from, to, bytes);
  }

  int await_mail(int to) {
    std::unique_lock lock(mutex_);
    int from = -1;
    changed_.wait(lock, [&] {
      from = mail_.next_sender(to);
      return from >= 0 || aborted_ || std::ranges::count(left_, false) == 1;
    });
    check_alive();
    if (from < 0) fail_left();
    return from;
  }

  /// The rank's body has ended; `next_ticket` is the first sum that it never started.
  void leave(int rank, std::int64_t next_ticket) {
    const std::lock_guard lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
    next_ticket_of_left_[rank] = next_ticket;
    changed_.notify_all();
  }

  void abort(const std::string& why, int code) {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    why_ = why;
    code_ = code;
    changed_.notify_all();
  }

  /// Called when a body threw something; keeps the first error that is not an echo of another rank's.
  void failed(int rank, std::exception_ptr error, bool echo) {
    {
      const std::lock_guard lock(mutex_);
      std::exception_ptr& slot = echo ? echo_ : error_;
      if (!slot) slot = error;
    }
    abort(vaecf::format("rank {} failed", rank), 1);
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
    if (echo_) std::rethrow_exception(echo_);
  }

 private:
  void check_alive() const {
    if (aborted_) throw RanksAborted(why_, code_);
  }
  [[noreturn]] void fail_left() const {
    const auto rank = std::ranges::find(left_, true) - left_.begin();
    throw std::logic_error(vaecf::format("rank {} has returned while others wait for it", rank));
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  std::int64_t generation_ = 0;
  std::vector<bool> left_;
  std::map<int, std::int64_t> next_ticket_of_left_;
  std::map<std::int64_t, StartedCollective> started_;
  Mailboxes mail_{size_};
  bool aborted_ = false;
  std::string why_;
  int code_ = 1;
  std::exception_ptr error_, echo_;
};

class ThreadCommunicator final : public Communicator, public Messages, public MessageBytes {
 public:
  ThreadCommunicator(World& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return world_.size(); }
  int local_size() const override { return world_.size(); }
  int local_rank() const override { return rank_; }
  std::string host() const override { return "localhost"; }
  std::string description() const override {
    return vaecf::format("threads, {} ranks in one process", world_.size());
  }
  std::int64_t next_ticket() const { return next_ticket_; }

  void barrier() override {
    meet({.call = "barrier"});
    world_.barrier();
  }

  void broadcast_bytes(std::span<std::byte> bytes, int root) override {
    if (root < 0 || root >= size()) throw std::logic_error(vaecf::format("broadcast: no rank {}", root));
    meet({.call = "broadcast", .input = bytes.data(), .count = length(bytes), .detail = root});
    if (rank_ != root && !bytes.empty()) {
      std::memcpy(bytes.data(), world_.offers[static_cast<std::size_t>(root)].input, bytes.size());
    }
    world_.barrier();
  }

  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    meet({.call = "all_gather", .input = part.data(), .count = length(part)});
    for (std::size_t r = 0; r < world_.offers.size() && !part.empty(); ++r) {
      std::memcpy(all.data() + r * part.size(), world_.offers[r].input, part.size());
    }
    world_.barrier();
  }

  void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) override {
    meet({.call = "all_reduce",
          .output = values,
          .count = count,
          .detail = static_cast<int>(type) * 16 + static_cast<int>(reduction)});
    switch (type) {
      case ElementType::byte:
        reduce_slice<unsigned char>(count, reduction);
        break;
      case ElementType::int64:
        reduce_slice<std::int64_t>(count, reduction);
        break;
      case ElementType::float32:
        reduce_slice<float>(count, reduction);
        break;
      case ElementType::float64:
        reduce_slice<double>(count, reduction);
        break;
      case ElementType::bf16:
        throw std::logic_error("blocking sums know no bf16");
    }
    world_.barrier();
  }

  Ticket start(const StartedCall& call, backend::Completion) override {
    world_.start(next_ticket_, rank_, call);
    open_.emplace(next_ticket_, std::span(static_cast<std::byte*>(call.out), call.out_bytes(size())));
    return {next_ticket_++};
  }
  backend::Completion wait(Ticket ticket) override {
    const auto found = open_.find(ticket.number);
    if (found == open_.end()) {
      throw std::logic_error(
          vaecf::format("rank {} waits for ticket {}, which is not open", rank_, ticket.number));
    }
    world_.wait(ticket.number, rank_, found->second);
    open_.erase(found);
    return {};
  }

  void send_recv(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) override {
    for (const SendBuffer& send : sends) {
      if (!send.bytes.empty()) world_.post(rank_, send.peer, send.bytes);
      sent += length(send.bytes);
    }
    for (const RecvBuffer& recv : recvs) {
      if (!recv.bytes.empty()) world_.collect(recv.peer, rank_, recv.bytes);
      received += length(recv.bytes);
    }
  }
  int probe_any() override { return world_.await_mail(rank_); }

  [[noreturn]] void abort(int code) override {
    const std::string why = vaecf::format("rank {} aborted with code {}", rank_, code);
    world_.abort(why, code);
    throw RanksAborted(why, code);
  }

 private:
  template <class Bytes>
  static std::int64_t length(const Bytes& values) {
    return static_cast<std::int64_t>(values.size());
  }

  /// Shows this rank's offer, waits for all others and checks that they agree.
  void meet(const Offer& mine) {
    world_.offers[static_cast<std::size_t>(rank_)] = mine;
    world_.barrier();
    for (std::size_t r = 0; r < world_.offers.size(); ++r) {
      const Offer& other = world_.offers[r];
      if (!mine.matches(other)) {
        throw std::logic_error(vaecf::format("rank {} calls {} with {} elements, rank {} calls {} with {}",
                                             rank_, mine.call, mine.count, r, other.call, other.count));
      }
    }
  }

  /// Each rank combines its share of the elements and writes it into everybody's buffer.
  template <class T>
  void reduce_slice(std::int64_t count, Reduction reduction) {
    const std::int64_t begin = count * rank_ / size();
    const std::int64_t end = count * (rank_ + 1) / size();
    for (std::int64_t i = begin; i < end; ++i) {
      T total = static_cast<const T*>(world_.offers[0].output)[i];
      for (std::size_t r = 1; r < world_.offers.size(); ++r) {
        total = combine(total, static_cast<const T*>(world_.offers[r].output)[i], reduction);
      }
      for (const Offer& offer : world_.offers) static_cast<T*>(offer.output)[i] = total;
    }
  }

  World& world_;
  int rank_;
  std::int64_t next_ticket_ = 0;
  std::map<std::int64_t, std::span<std::byte>> open_;  // outputs of what started and was not yet waited for
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  if (ranks < 1) throw std::logic_error("run_ranks needs at least one rank");
  World world(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&world, &body, rank] {
      ThreadCommunicator communicator(world, rank);
      try {
        body(communicator);
        world.leave(rank, communicator.next_ticket());
      } catch (const RanksAborted&) {
        world.failed(rank, std::current_exception(), true);
      } catch (...) {
        world.failed(rank, std::current_exception(), false);
      }
    });
  }
  threads.clear();
  world.rethrow();
}

}  // namespace vaecf::comm
