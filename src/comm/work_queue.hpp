#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace vaecf::comm {

/// Collectives that proceed beside compute. MPI makes no progress by itself, so a thread of our own runs
/// blocking calls, first come first served, on a communicator that nobody else uses. It is born with the
/// first piece of work.
class WorkQueue {
 public:
  WorkQueue();
  /// Finishes what was pushed, then joins the thread.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Returns the work's number, counted from 0.
  std::int64_t push(std::function<void()> work);
  /// Rethrows what the thread threw; after that nothing more is run.
  void wait(std::int64_t number);
  /// Waits until nothing is left to do, or nothing more will be done; drops what has not begun after
  /// `seconds`.
  void settle(double seconds);
  /// Makes the destructor leave a thread alone that is inside MPI, where it may stay for ever. Whatever that
  /// work uses must then outlive this object.
  void abandon();

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // also held by the thread, which may outlive us
};

}  // namespace vaecf::comm
