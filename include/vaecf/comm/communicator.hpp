#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/distributed_options.hpp>
#include <vaecf/device/model_parallel_group.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace vaecf::comm {

/// The element types of collectives. `byte` is summed and compared as uint8. Only non-blocking collectives
/// support bf16.
enum class ElementType { byte, int64, float32, float64, bf16 };

/// Returns the ElementType of `T`; any type of one byte is `byte`.
template <class T>
constexpr ElementType element_type() {
  if constexpr (std::is_same_v<T, float>)
    return ElementType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return ElementType::float64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return ElementType::int64;
  else if constexpr (std::is_same_v<T, Bf16>)
    return ElementType::bf16;
  else {
    static_assert(sizeof(T) == 1, "the element type must be float, double, Bf16, int64_t or one byte");
    return ElementType::byte;
  }
}

/// The operation of a blocking all-reduce: MPI_SUM, MPI_MAX or MPI_MIN. Non-blocking collectives sum.
enum class Reduction { sum, max, min };

/// The handle of a non-blocking collective, as MPI_Request. All ranks must start these in the same order.
struct Request {
  std::int64_t id = -1;
};

enum class CollectiveKind { all_reduce_sum, reduce_scatter_sum, all_gather };

constexpr const char* to_string(CollectiveKind kind) {
  constexpr std::array<const char*, 3> names = {"all-reduce", "reduce-scatter", "all-gather"};
  return names[static_cast<std::size_t>(kind)];
}

/// The arguments of a non-blocking collective on fp32 or bf16 elements.
struct AsyncCollective {
  CollectiveKind kind = CollectiveKind::all_reduce_sum;
  ElementType type = ElementType::float32;
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;  ///< elements: all of them for an all-reduce, otherwise those of one rank's part

  std::size_t element_bytes() const { return type == ElementType::bf16 ? sizeof(Bf16) : sizeof(float); }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * element_bytes(); }
  std::size_t in_bytes(int ranks) const {
    return bytes() * static_cast<std::size_t>(kind == CollectiveKind::reduce_scatter_sum ? ranks : 1);
  }
  std::size_t out_bytes(int ranks) const {
    return bytes() * static_cast<std::size_t>(kind == CollectiveKind::all_gather ? ranks : 1);
  }
};

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

/// A message to rank `peer`, in host memory.
struct SendBuffer {
  int peer = 0;
  std::span<const std::byte> bytes;
};
/// The host memory that receives a message from rank `peer`.
struct RecvBuffer {
  int peer = 0;
  std::span<std::byte> bytes;
};

/// Point-to-point messages between the ranks of a Communicator, for one thread at a time. The functions are
/// not collective: only the sender and the receiver call them. Messages between two ranks arrive in the order
/// of sending, and each must be received with its exact length. Empty messages are not sent. The functions
/// throw RunError if an MPI call fails.
class Messages {
 public:
  virtual ~Messages() = default;

  /// Sends and receives all given messages concurrently. Blocks until all of them have completed.
  virtual void send_recv(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) = 0;
  /// Blocks until a message to this rank has arrived, and returns its sender. Does not receive the message.
  virtual int probe_any() = 0;
};

/// Returns the Messages of `communicator`, which must outlive them. This is `communicator` itself if it
/// implements Messages, as the thread communicator of the tests does. Otherwise it is an MPI implementation
/// over a separate MPI communicator, with messages shorter than 2 GiB. Collective.
std::shared_ptr<Messages> messages_of(Communicator& communicator);

/// Returns the number of processes in this job as reported by the launcher, or nullopt if no launcher is
/// detected or it does not report one.
std::optional<int> launcher_size();
/// Returns the rank of this process as assigned by the launcher, or nullopt if no launcher is detected or it
/// does not report one.
std::optional<int> launcher_rank();
/// Returns a warning to print before MPI_Init if srun started several tasks without PMIx, or an empty string.
/// Most MPI libraries cannot connect such tasks, and their error messages do not name a remedy.
std::string pmi_mismatch_hint();
/// Returns true if mpirun, or srun with more than one task, started this process. SLURM_* variables alone do
/// not count: a plain shell inside a Slurm allocation has them too.
bool launched_by_mpi();

/// The MPI library that this process has loaded.
struct MpiLibrary {
  std::string version;  ///< such as "Open MPI v4.1.4"
  std::string file;     ///< its path; empty if it is unknown
};
/// Queries the MPI library, which need not be initialized.
MpiLibrary mpi_library();

/// Returns the transports that Open MPI uses in this process: "UCX", "libfabric or PSM", or those that it
/// selects from for each pair of ranks, such as "shared memory, TCP". Returns an empty string if MPI has not
/// been initialized or the library provides no such information.
std::string mpi_transports();

/// Makes a communicator of all ranks of MPI_COMM_WORLD for host memory. Initializes MPI unless it is running
/// already. The communicator that initialized MPI finalizes it when it is destroyed, unless an exception is
/// unwinding. In that case other ranks may never join the finalization, and the process should end by abort()
/// or exit. MPI cannot be initialized again after it was finalized. Collective.
///
/// If ranks request different values of options.algorithm, the MPI library chooses the algorithm. MPI makes
/// no progress by itself, so non-blocking collectives run in wait(). With options.overlap `on` their messages
/// are posted immediately, and every rank sums its own part of an all-reduce.
///
/// Collectives other than broadcasts throw RunError if a count exceeds 2^31 - 1. Throws InputError if a
/// launcher started several processes, but each has an MPI_COMM_WORLD of size 1. The process prints a message
/// and calls _Exit(1) if MPI has not connected the ranks after options.startup_timeout seconds, or if
/// MPI_Finalize takes longer than 60 seconds.
std::unique_ptr<Communicator> make_mpi_communicator(const DistributedOptions& options = {});

/// Returns `error`, marked as one that every rank throws.
template <class E>
E on_all_ranks(E error) {
  error.mark_on_all_ranks();
  return error;
}

/// Runs `work` on rank 0 only. Collective. If `work` throws, all ranks throw an InputError or RunError with
/// its message, so that no rank blocks on one that has failed.
void run_on_root(Communicator& communicator, const std::function<void()>& work);

/// Returns the result of `question` on rank 0. Collective. Throws as run_on_root() does.
[[nodiscard]] bool query_root(Communicator& communicator, const std::function<bool()>& question);

/// Throws InputError on all ranks unless `text` is equal on all of them; `what` is its name in the message.
/// Collective.
void require_equal_on_all_ranks(Communicator& communicator, std::string_view text, std::string_view what);

/// Returns the number of cores in the combined affinity mask of all ranks of a host, within the CPU limit of
/// their container or job; the minimum over hosts. Collective.
std::int64_t usable_cores(Communicator& ranks);

/// Computes sum[i] = terms[0][i] + terms[1][i] + .. for i < count, in fp32 and in this order, rounded once at
/// the end. `sum` may be one of the terms. T is float or Bf16.
template <class T>
void ordered_sum(std::span<const T* const> terms, std::int64_t count, T* sum) {
  const auto widened = [](T value) {
    if constexpr (std::is_same_v<T, Bf16>)
      return value.value();
    else
      return value;
  };
  // The accumulators stay in the L1 cache for any number of terms.
  constexpr std::int64_t block = 1024;
  std::array<float, block> total;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t n = std::min(block, count - begin);
    std::transform(terms[0] + begin, terms[0] + begin + n, total.begin(), widened);
    for (const T* term : terms.subspan(1)) {
      for (std::int64_t i = 0; i < n; ++i) total[static_cast<std::size_t>(i)] += widened(term[begin + i]);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, Bf16>)
        sum[begin + i] = Bf16::from(total[static_cast<std::size_t>(i)]);
      else
        sum[begin + i] = total[static_cast<std::size_t>(i)];
    }
  }
}

/// Background thread that detects ranks without progress. Each rank sends a heartbeat to rank 0 about once a
/// second, and rank 0 sends its own to the other ranks. A rank is stalled if it sends no heartbeat, or if it
/// neither makes progress nor waits for other ranks. If all ranks wait, the one that has entered the fewest
/// collectives is stalled. The watchdog writes to standard error:
///
///   after `stall_warning` seconds   the stalled rank with its host, phase and step
///   when that rank makes progress   that it continues
///   after `timeout` seconds         the stalled rank again; the run is then aborted. `startup_timeout` and
///                                   `validation_timeout` replace `timeout` in their phases
///   on an asynchronous NCCL error   the error (Activity::set_device_check); the run is then aborted
///
/// Time in which this process is suspended does not count. The launcher, not the watchdog, reports a rank
/// that terminates, and ends the others. Without MPI_THREAD_MULTIPLE no heartbeats are sent, and each rank
/// detects only its own stalls outside of waits for other ranks; rank 0 prints a message about this.
class Watchdog {
 public:
  /// Sends the first heartbeat and starts the thread. `communicator`, made by make_mpi_communicator or
  /// make_self_communicator, and `stop` (may be null) must outlive this object. Once `stop` is set, the run
  /// ends within seconds if a rank sends no heartbeat. Before the watchdog ends the run it calls `at_failure`
  /// from its own thread, with its message. Throws RunError if MPI is finalized.
  Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop = nullptr,
           std::function<void(const std::string& message)> at_failure = {});
  /// Ends the thread. Collective, and blocks until all ranks have called it, unless an exception is unwinding
  /// the stack. Terminates the process if other ranks do not follow within half a minute.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vaecf::comm
