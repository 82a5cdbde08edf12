#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/device/model_parallel_group.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace vaecf::comm {

/// Some ranks, as in an MPI_Comm or ncclComm_t, and the collectives between them. All ranks
/// must call every collective in the same order. Element counts are 64-bit. Sums are bitwise equal on all
/// ranks. Blocking collectives work on host memory, non-blocking ones on the memory of the device that this
/// communicator is paired with. Collectives throw RunError naming the failed call.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the number of ranks on this host.
  virtual int local_size() const = 0;
  /// Returns the index of this rank among the ranks on this host.
  virtual int local_rank() const = 0;
  virtual std::string host() const = 0;
  /// Returns one line for the log: library, algorithm, hosts.
  virtual std::string description() const = 0;
  /// Returns the current activity of this rank. The thread that calls collectives updates it; the watchdog
  /// reads it.
  virtual Activity& activity() { return *activity_; }

  /// Makes a communicator of the ranks that pass the same `color`, in the order of `key` and then of rank, as
  /// MPI_Comm_split. It shares activity(). On a GPU, its collectives run in the same stream as those of this
  /// communicator, so that several communicators never work at once. This communicator must outlive the
  /// result. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Copies `values` of rank `root` to all ranks; the size must be equal on all ranks. Collective.
  template <class T>
  void broadcast(std::span<T> values, int root) {
    broadcast_bytes(std::as_writable_bytes(values), root);
  }
  /// Returns rank `root`'s `text` on all ranks; its length may differ between ranks. Collective.
  std::string broadcast_string(std::string text, int root) {
    auto size = static_cast<std::int64_t>(text.size());
    broadcast(std::span<std::int64_t>(&size, 1), root);
    text.resize(static_cast<std::size_t>(size));
    broadcast(std::span<char>(text), root);
    return text;
  }
  /// Reduces `values` element by element over all ranks, in place. Collective.
  template <class T>
  void all_reduce(std::span<T> values, Reduction reduction = Reduction::sum) {
    all_reduce_raw(values.data(), static_cast<std::int64_t>(values.size()), element_type<T>(), reduction);
  }
  /// Returns `value` reduced over all ranks. Collective.
  template <class T>
  T all_reduce(T value, Reduction reduction = Reduction::sum) {
    all_reduce(std::span<T>(&value, 1), reduction);
    return value;
  }
  /// Gathers every rank's `part` in `all` (R * part.size() elements), in rank order. part.size() must be
  /// equal on all ranks. Collective. Throws std::logic_error if `all` has another size.
  template <class T>
  void all_gather(std::span<const T> part, std::span<T> all) {
    check_parts(all.size(), part.size());
    all_gather_bytes(std::as_bytes(part), std::as_writable_bytes(all));
  }
  /// Blocks until all ranks have called it, as MPI_Barrier. Does not wait for non-blocking collectives.
  /// Collective.
  virtual void barrier() = 0;

  // Non-blocking collectives, which can overlap with compute, on contiguous float or Bf16 elements. The input
  // must be complete when `after` is signaled. No buffer may be moved, freed or written until the event
  // returned by wait() is signaled. MPI sums of bf16 elements are accumulated in fp32 and rounded once; a
  // device library may round intermediate sums.

  /// Starts to sum `values` over all ranks, in place. Collective.
  template <class Values>
  Request all_reduce_async(Values&& values, device::EventHandle after) {
    return start_collective(CollectiveKind::all_reduce_sum, std::span(values), std::span(values), after);
  }
  /// Starts to sum `values` (R * part.size() elements) over all ranks; rank r receives part r of the sum in
  /// `part`. `part` is either this rank's own range of `values` or does not overlap with `values`.
  /// Collective.
  template <class Values, class Part>
  Request reduce_scatter_async(Values&& values, Part&& part, device::EventHandle after) {
    return start_collective(CollectiveKind::reduce_scatter_sum, std::span(values), std::span(part), after);
  }
  /// Starts to gather every rank's `part` in `all` (R * part.size() elements), in rank order. `part` is
  /// either this rank's own range of `all` or does not overlap with `all`. Collective.
  template <class Part, class All>
  Request all_gather_async(Part&& part, All&& all, device::EventHandle after) {
    return start_collective(CollectiveKind::all_gather, std::span(part), std::span(all), after);
  }
  /// Starts `call` once `after` is signaled, and returns its handle for wait(). The functions above call it.
  /// Collective. Does not block on a GPU; on the CPU the collective may run in wait(). The buffers must stay
  /// valid as described above.
  virtual Request start(const AsyncCollective& call, device::EventHandle after) = 0;
  /// Completes a non-blocking collective. On the CPU this call blocks until it has finished and returns a
  /// null event. On a GPU it returns the event that the device must wait for before it accesses the buffers.
  /// Throws std::logic_error if `request` was never started.
  virtual device::EventHandle wait(Request request) = 0;
  /// Prepares for destruction after a failure: blocks until no non-blocking collective accesses host memory
  /// any more, or for a few seconds if other ranks do not respond.
  virtual void quiesce() noexcept {}
  /// Returns whether non-blocking collectives and their waits can be captured in a CUDA graph.
  virtual bool supports_graph_capture() const { return false; }

  /// Terminates all ranks immediately with exit code `code`; does not return. May be called from any thread.
  [[noreturn]] virtual void abort(int code) = 0;

  // The blocking collectives on untyped memory that the templates above call.
  virtual void broadcast_bytes(std::span<std::byte> bytes, int root) = 0;
  virtual void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) = 0;
  virtual void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) = 0;

 protected:
  /// Makes a communicator that updates the activity of another one.
  explicit Communicator(Activity& shared) : activity_(&shared) {}

 private:
  template <class In, class Out>
  Request start_collective(CollectiveKind kind, In in, Out out, device::EventHandle after) {
    using T = typename Out::value_type;
    static_assert(std::is_same_v<T, typename In::value_type>);
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, Bf16>);
    const std::size_t part = kind == CollectiveKind::all_gather ? in.size() : out.size();
    if (kind != CollectiveKind::all_reduce_sum) check_parts(in.size() + out.size() - part, part);
    return start({kind, element_type<T>(), in.data(), out.data(), static_cast<std::int64_t>(part)}, after);
  }
  void check_parts(std::size_t all, std::size_t part) const {
    if (all != part * static_cast<std::size_t>(size()))
      throw std::logic_error(
          format("Communicator: {} elements do not consist of {} parts of {}", all, size(), part));
  }

  Activity own_activity_;
  Activity* activity_ = &own_activity_;
};

/// Gathers every rank's string `mine`, in rank order, on all ranks. Lengths may differ. Collective.
std::vector<std::string> all_gather_strings(Communicator& communicator, const std::string& mine);

/// Makes the communicator of a single-process run, without MPI.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace vaecf::comm
