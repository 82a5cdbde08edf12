#include "support/thread_communicator.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/messages.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace vaecf::comm {
namespace {

using Bytes = std::vector<std::byte>;
/// Computes the result of a collective from the inputs of all ranks.
using Join = std::function<Bytes(const std::vector<Bytes>&)>;

/// A collective on copies of the inputs, since a failing rank may free its memory while others still work.
struct Collective {
  std::vector<std::string> calls;  // call of each rank; all must be equal
  std::vector<Bytes> inputs;
  Bytes result;
  int started = 0;
  int collected = 0;
  bool done = false;
};

class World {
 public:
  explicit World(int ranks) : size_(ranks) {}

  int size() const { return size_; }

  /// Starts a collective. The last rank computes the result for all, so this does not block.
  void start(std::int64_t number, int rank, const std::string& call, std::span<const std::byte> input,
             const Join& join) {
    const std::lock_guard lock(mutex_);
    check_alive();
    Collective& all = collectives_[number];
    all.calls.resize(static_cast<std::size_t>(size_));
    all.inputs.resize(static_cast<std::size_t>(size_));
    all.calls[static_cast<std::size_t>(rank)] = vaecf::format("{} with {} bytes", call, input.size());
    all.inputs[static_cast<std::size_t>(rank)].assign(input.begin(), input.end());
    if (++all.started < size_) return;
    for (std::size_t r = 1; r < all.calls.size(); ++r) {
      if (all.calls[r] == all.calls[0]) continue;
      throw std::logic_error(
          vaecf::format("rank 0 calls {}, rank {} calls {}", all.calls[0], r, all.calls[r]));
    }
    all.result = join(all.inputs);
    all.done = true;
    changed_.notify_all();
  }

  /// Waits for the result and copies it, starting at byte `begin`.
  void wait(std::int64_t number, std::size_t begin, std::span<std::byte> output) {
    std::unique_lock lock(mutex_);
    const auto found = collectives_.find(number);
    Collective& all = found->second;
    wait_until(lock, [&] { return all.done; });
    if (!output.empty()) std::memcpy(output.data(), all.result.data() + begin, output.size());
    if (++all.collected == size_) collectives_.erase(found);
  }

  void send(int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    check_alive();
    mail_[{to, from}].emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  }

  void receive(int from, int to, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& messages = mail_[{to, from}];
    wait_until(lock, [&] { return !messages.empty(); });
    if (messages.front().size() != bytes.size()) {
      throw std::logic_error(vaecf::format("send_recv: rank {} sent {} bytes where rank {} receives {}", from,
                                           messages.front().size(), to, bytes.size()));
    }
    std::ranges::copy(messages.front(), bytes.begin());
    messages.pop_front();
  }

  /// Waits for a message to `to` and returns its sender, in round-robin order of the senders.
  int probe(int to) {
    std::unique_lock lock(mutex_);
    int& last = last_sender_[to];
    wait_until(lock, [&] {
      for (int k = 1; k <= size_; ++k) {
        const int from = (last + k) % size_;
        if (mail_[{to, from}].empty()) continue;
        last = from;
        return true;
      }
      return false;
    });
    return last;
  }

  /// Returns the world of `ranks` ranks that split number `number` makes for `color`. Fails with this one.
  std::shared_ptr<World> part(std::int64_t number, int color, int ranks) {
    const std::lock_guard lock(mutex_);
    check_alive();
    std::shared_ptr<World>& world = parts_[{number, color}];
    if (!world) world = std::make_shared<World>(ranks);
    return world;
  }

  /// Stops all ranks after the current exception; the other ranks throw `others`.
  void fail(const RanksAborted& others) {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    for (const auto& [key, world] : parts_) world->fail(others);
    aborted_ = others;
    error_ = std::current_exception();
    changed_.notify_all();
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void check_alive() const {
    if (aborted_) throw *aborted_;
  }
  template <class Ready>
  void wait_until(std::unique_lock<std::mutex>& lock, Ready&& ready) {
    constexpr std::chrono::seconds longest(200);
    bool is_ready = false;
    changed_.wait_for(lock, longest, [&] { return (is_ready = ready()) || aborted_; });
    if (is_ready) return;
    check_alive();
    throw std::logic_error("a rank waits for another rank that has returned or does not call the collective");
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Collective> collectives_;                        // by number
  std::map<std::pair<int, int>, std::deque<Bytes>> mail_;                 // by receiver and sender
  std::map<int, int> last_sender_;                                        // by receiver
  std::map<std::pair<std::int64_t, int>, std::shared_ptr<World>> parts_;  // by split and color
  std::optional<RanksAborted> aborted_;
  std::exception_ptr error_;
};

Bytes concatenate(const std::vector<Bytes>& inputs) {
  Bytes all;
  for (const Bytes& input : inputs) all.insert(all.end(), input.begin(), input.end());
  return all;
}

/// Reduces element by element in rank order. bf16 values are summed in fp32 and rounded once.
template <class T>
Join combine(Reduction reduction) {
  constexpr bool is_bf16 = std::is_same_v<T, Bf16>;
  return [reduction](const std::vector<Bytes>& inputs) {
    Bytes result(inputs[0].size());
    for (std::size_t at = 0; at < result.size(); at += sizeof(T)) {
      const auto element = [at](const Bytes& input) {
        T value;
        std::memcpy(&value, input.data() + at, sizeof value);
        if constexpr (is_bf16)
          return value.value();
        else
          return value;
      };
      auto total = element(inputs[0]);
      for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
        const auto value = element(inputs[rank]);
        total = reduction == Reduction::sum   ? static_cast<decltype(total)>(total + value)
                : reduction == Reduction::max ? std::max(total, value)
                                              : std::min(total, value);
      }
      T rounded;
      if constexpr (is_bf16)
        rounded = Bf16::from(total);
      else
        rounded = total;
      std::memcpy(result.data() + at, &rounded, sizeof rounded);
    }
    return result;
  };
}

Join combine(ElementType type, Reduction reduction) {
  switch (type) {
    case ElementType::byte:
      return combine<unsigned char>(reduction);
    case ElementType::int64:
      return combine<std::int64_t>(reduction);
    case ElementType::float32:
      return combine<float>(reduction);
    case ElementType::float64:
      return combine<double>(reduction);
    case ElementType::bf16:
      return combine<Bf16>(reduction);
  }
  throw std::logic_error("unknown element type");
}

class ThreadCommunicator final : public Communicator, public Messages, public MessageBytes {
 public:
  ThreadCommunicator(World& world, int rank, const ThreadDevice& device)
      : world_(world), rank_(rank), device_(device) {}
  ThreadCommunicator(ThreadCommunicator& parent, std::shared_ptr<World> world, int rank)
      : Communicator(parent.activity()),
        own_world_(std::move(world)),
        world_(*own_world_),
        rank_(rank),
        device_(parent.device_) {}

  int rank() const override { return rank_; }
  int size() const override { return world_.size(); }
  int local_size() const override { return std::min(ranks_per_host(), size() - rank_ + local_rank()); }
  int local_rank() const override { return rank_ % ranks_per_host(); }
  std::string host() const override {
    const int host = rank_ / ranks_per_host();
    return host == 0 ? "localhost" : vaecf::format("host{}", host);
  }
  std::string description() const override {
    return vaecf::format("threads, {} ranks in one process", world_.size());
  }
  bool supports_graph_capture() const override { return device_.supports_graph_capture; }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const std::array<std::int64_t, 2> mine = {color, key};
    std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size()));
    all_gather(std::span<const std::int64_t>(mine), std::span(all));
    int ranks = 0;
    int before = 0;
    for (int r = 0; r < size(); ++r) {
      const std::int64_t* other = &all[2 * static_cast<std::size_t>(r)];
      if (other[0] != color) continue;
      ++ranks;
      if (std::pair(other[1], r) < std::pair(mine[1], rank_)) ++before;
    }
    return std::make_unique<ThreadCommunicator>(*this, world_.part(next_request_, color, ranks), before);
  }

  void barrier() override { wait(start("barrier", {}, {}, concatenate)); }
  void broadcast_bytes(std::span<std::byte> bytes, int root) override {
    wait(start(vaecf::format("broadcast of rank {}", root), bytes, bytes,
               [root](const auto& inputs) { return inputs.at(static_cast<std::size_t>(root)); }));
  }
  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    wait(start("all-gather", part, all, concatenate));
  }
  void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) override {
    const std::size_t sizes[] = {1, sizeof(std::int64_t), sizeof(float), sizeof(double), sizeof(Bf16)};
    const std::span<std::byte> bytes(static_cast<std::byte*>(values),
                                     static_cast<std::size_t>(count) * sizes[static_cast<int>(type)]);
    wait(start(vaecf::format("all-reduce {} of type {}", static_cast<int>(reduction), static_cast<int>(type)),
               bytes, bytes, combine(type, reduction)));
  }

  Request start(const AsyncCollective& call, device::EventHandle after) override {
    const std::span input(static_cast<const std::byte*>(call.in), call.in_bytes(size()));
    const std::span output(static_cast<std::byte*>(call.out), call.out_bytes(size()));
    if (device_.reach) {
      device_.reach(input, after);
      device_.reach(output, after);
    }
    const bool sums = call.kind != CollectiveKind::all_gather;
    const bool has_part = call.kind == CollectiveKind::reduce_scatter_sum;
    return start(vaecf::format("started {} of type {}", to_string(call.kind), static_cast<int>(call.type)),
                 input, output, sums ? combine(call.type, Reduction::sum) : Join(concatenate),
                 has_part ? static_cast<std::size_t>(rank_) * output.size() : 0);
  }
  device::EventHandle wait(Request request) override {
    const auto found = open_.find(request.id);
    if (found == open_.end()) {
      throw std::logic_error(
          vaecf::format("rank {} waits for request {}, which is not open", rank_, request.id));
    }
    world_.wait(request.id, found->second.begin, found->second.bytes);
    open_.erase(found);
    return {};
  }

  void send_recv(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) override {
    for (const SendBuffer& send : sends) {
      if (!send.bytes.empty()) world_.send(rank_, send.peer, send.bytes);
      sent += std::ssize(send.bytes);
    }
    for (const RecvBuffer& recv : recvs) {
      if (!recv.bytes.empty()) world_.receive(recv.peer, rank_, recv.bytes);
      received += std::ssize(recv.bytes);
    }
  }
  int probe_any() override { return world_.probe(rank_); }

  [[noreturn]] void abort(int code) override {
    throw RanksAborted(vaecf::format("rank {} aborted with code {}", rank_, code), code);
  }

 private:
  /// Memory for a result, or for the part of it that begins at byte `begin`.
  struct Output {
    std::span<std::byte> bytes;
    std::size_t begin = 0;
  };

  Request start(const std::string& call, std::span<const std::byte> input, std::span<std::byte> output,
                const Join& join, std::size_t begin = 0) {
    world_.start(next_request_, rank_, call, input, join);
    open_[next_request_] = {output, begin};
    return {next_request_++};
  }

  int ranks_per_host() const { return device_.ranks_per_host > 0 ? device_.ranks_per_host : size(); }

  std::shared_ptr<World> own_world_;  // of a part
  World& world_;
  int rank_;
  const ThreadDevice& device_;
  std::int64_t next_request_ = 0;
  std::map<std::int64_t, Output> open_;  // collectives that were started and not yet waited for
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const ThreadDevice& device) {
  if (ranks < 1) throw std::logic_error("run_ranks needs at least one rank");
  World world(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(world, rank, device);
      try {
        body(communicator);
      } catch (const RanksAborted& aborted) {
        world.fail(aborted);
      } catch (...) {
        world.fail(RanksAborted(vaecf::format("rank {} failed", rank)));
      }
    });
  }
  threads.clear();
  world.rethrow();
}

}  // namespace vaecf::comm
