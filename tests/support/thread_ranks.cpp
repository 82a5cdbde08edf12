#include "support/thread_ranks.hpp"

#include <vaecf/base/error.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace vaecf::testing {

using device::EventHandle;

/// The calls of all threads, and a barrier that no thread leaves alone.
class SliceExchange {
 public:
  explicit SliceExchange(int item_slices)
      : calls_(static_cast<std::size_t>(item_slices)), inputs_(static_cast<std::size_t>(item_slices)) {}

  /// Calls use(inputs of all item slices) once all item slices have called this function with the same `call`
  /// and size.
  template <class Use>
  void run(int index, const char* call, std::span<const std::byte> input, const Use& use) {
    const auto mine = static_cast<std::size_t>(index);
    calls_[mine] = vaecf::format("{} with {} bytes", call, input.size());
    inputs_[mine] = input;
    wait_for_all();
    for (std::size_t s = 1; s < calls_.size(); ++s) {
      if (calls_[s] == calls_[0]) continue;
      throw std::logic_error(vaecf::format("rank 0 calls {}, rank {} calls {}", calls_[0], s, calls_[s]));
    }
    use(inputs_);
    wait_for_all();
  }

  /// Lets the other threads fail that still wait for this one.
  void leave(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error && !error_) error_ = error;
    gone_ = true;
    changed_.notify_all();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const std::int64_t round = round_;
    if (++arrived_ == std::ssize(calls_)) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round || gone_; });
    if (round_ == round) throw std::logic_error("a rank waits for one that has returned or failed");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t arrived_ = 0;
  std::int64_t round_ = 0;
  bool gone_ = false;
  std::exception_ptr error_;
  std::vector<std::string> calls_;
  std::vector<std::span<const std::byte>> inputs_;
};

namespace {

template <class T>
void gather(SliceExchange& exchange, int index, std::span<const T> part, std::span<T> all) {
  exchange.run(index, "all_gather", std::as_bytes(part), [&](const auto& inputs) {
    if (all.size() != part.size() * inputs.size()) throw std::logic_error("all_gather: wrong output size");
    std::byte* to = std::as_writable_bytes(all).data();
    for (const auto& input : inputs) {
      if (!input.empty()) std::memcpy(to, input.data(), input.size());
      to += input.size();
    }
  });
}

}  // namespace

EventHandle ThreadRanks::reduce_scatter(std::span<const float> all, std::span<float> part, EventHandle) {
  ++exchanges_;
  synchronize();
  exchange_.run(index_, "reduce_scatter", std::as_bytes(all), [&](const auto& inputs) {
    if (all.size() != part.size() * inputs.size())
      throw std::logic_error("reduce_scatter: wrong output size");
    const std::size_t begin = static_cast<std::size_t>(index_) * part.size();
    for (std::size_t i = 0; i < part.size(); ++i) {
      float sum = 0.0F;
      for (const auto& input : inputs) {
        float value = 0.0F;
        std::memcpy(&value, input.data() + (begin + i) * sizeof(float), sizeof(float));
        sum += value;
      }
      part[i] = sum;
    }
  });
  return {};
}

EventHandle ThreadRanks::all_gather(std::span<const float> part, std::span<float> all, EventHandle) {
  ++exchanges_;
  synchronize();
  gather(exchange_, index_, part, all);
  return {};
}

EventHandle ThreadRanks::all_gather(std::span<const Bf16> part, std::span<Bf16> all, EventHandle) {
  ++exchanges_;
  synchronize();
  gather(exchange_, index_, part, all);
  return {};
}

void run_thread_ranks(int item_slices, const std::function<void(ThreadRanks&)>& body) {
  SliceExchange exchange(item_slices);
  std::vector<std::thread> threads;
  for (int s = 0; s < item_slices; ++s) {
    threads.emplace_back([&, s] {
      ThreadRanks mine(exchange, item_slices, s);
      try {
        body(mine);
        exchange.leave(nullptr);
      } catch (...) {
        exchange.leave(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  exchange.rethrow();
}

}  // namespace vaecf::testing
