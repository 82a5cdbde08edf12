#include "reduction_queue.hpp"

#include "mpi_check.hpp"

#include <pthread.h>
#include <signal.h>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace vaecf::comm {

void all_reduce_pieces(void* values, std::int64_t count, MPI_Datatype type, MPI_Op operation,
                       std::int64_t piece_elements, MPI_Comm communicator) {
  MPI_Aint lower = 0;
  MPI_Aint bytes = 0;
  check_mpi(MPI_Type_get_extent(type, &lower, &bytes), "MPI_Type_get_extent");
  for (std::int64_t begin = 0; begin < count; begin += piece_elements) {
    const auto piece = static_cast<int>(std::min(piece_elements, count - begin));
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, static_cast<char*>(values) + begin * bytes, piece, type, operation,
                            communicator),
              "MPI_Allreduce");
  }
}

struct ReductionQueue::State {
  MPI_Comm communicator = MPI_COMM_NULL;
  std::int64_t piece_elements = 0;
  std::thread thread;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::span<float>> pending;
  std::int64_t pushed = 0;
  std::int64_t done = 0;
  bool busy = false;
  bool stop = false;
  bool abandoned = false;
  std::exception_ptr error;
};

ReductionQueue::ReductionQueue(MPI_Comm communicator, std::int64_t piece_elements)
    : state_(std::make_shared<State>()) {
  state_->communicator = communicator;
  state_->piece_elements = piece_elements;
}

ReductionQueue::~ReductionQueue() {
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

std::int64_t ReductionQueue::push(std::span<float> values) {
  if (!state_->thread.joinable()) {
    // Signals are for the threads that know what to do with them.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    state_->thread = std::thread([state = state_] { work(state); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  std::int64_t number = 0;
  {
    const std::lock_guard lock(state_->mutex);
    state_->pending.push_back(values);
    number = state_->pushed++;
  }
  state_->changed.notify_all();
  return number;
}

void ReductionQueue::wait(std::int64_t number) {
  std::unique_lock lock(state_->mutex);
  if (number < 0 || number >= state_->pushed) {
    throw std::logic_error(vaecf::format("wait: ticket {} was never started", number));
  }
  state_->changed.wait(lock, [&] { return state_->done > number || state_->error; });
  if (state_->done <= number) std::rethrow_exception(state_->error);
}

void ReductionQueue::abandon() {
  const std::lock_guard lock(state_->mutex);
  state_->abandoned = true;
}

void ReductionQueue::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stop || !state->pending.empty(); });
    if (state->pending.empty()) return;
    const std::span<float> values = state->pending.front();
    state->pending.pop_front();
    state->busy = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      all_reduce_pieces(values.data(), static_cast<std::int64_t>(values.size()), MPI_FLOAT, MPI_SUM,
                        state->piece_elements, state->communicator);
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
