#include "work_queue.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace vaecf::comm {

struct WorkQueue::State {
  std::thread thread;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> pending;
  std::int64_t pushed = 0;
  std::int64_t done = 0;
  bool busy = false;
  bool stop = false;
  bool abandoned = false;
  std::exception_ptr error;
};

WorkQueue::WorkQueue() : state_(std::make_shared<State>()) {}

WorkQueue::~WorkQueue() {
  if (!state_->thread.joinable()) return;
  bool leave = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    if (state_->abandoned) state_->pending.clear();
    leave = state_->abandoned && state_->busy;
  }
  state_->changed.notify_all();
  if (leave) {
    state_->thread.detach();
  } else {
    state_->thread.join();
  }
}

std::int64_t WorkQueue::push(std::function<void()> work) {
  if (!state_->thread.joinable()) {
    state_->thread = std::thread([state = state_] { run(state); });
  }
  std::int64_t number = 0;
  {
    const std::lock_guard lock(state_->mutex);
    state_->pending.push_back(std::move(work));
    number = state_->pushed++;
  }
  state_->changed.notify_all();
  return number;
}

void WorkQueue::wait(std::int64_t number) {
  std::unique_lock lock(state_->mutex);
  if (number < 0 || number >= state_->pushed) {
    throw std::logic_error(vaecf::format("wait: ticket {} was never started", number));
  }
  state_->changed.wait(lock, [&] { return state_->done > number || state_->error; });
  if (state_->done <= number) std::rethrow_exception(state_->error);
}

void WorkQueue::settle(double seconds) {
  std::unique_lock lock(state_->mutex);
  const auto idle = [&] { return (state_->pending.empty() && !state_->busy) || state_->error; };
  if (!state_->changed.wait_for(lock, std::chrono::duration<double>(seconds), idle)) state_->pending.clear();
}

void WorkQueue::abandon() {
  const std::lock_guard lock(state_->mutex);
  state_->abandoned = true;
}

void WorkQueue::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stop || !state->pending.empty(); });
    if (state->pending.empty()) return;
    const std::function<void()> work = std::move(state->pending.front());
    state->pending.pop_front();
    state->busy = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    state->busy = false;
    if (error)
      state->error = error;
    else
      ++state->done;
    state->changed.notify_all();
    if (error) return;
  }
}

}  // namespace vaecf::comm
