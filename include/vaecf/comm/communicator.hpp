#pragma once

#include <vaecf/base/activity.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/narrow.hpp>
#include <vaecf/comm/distributed_options.hpp>
#include <vaecf/device/step.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace vaecf::comm {

enum class ElementType { byte, int64, float32, float64, bf16 };

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
    static_assert(sizeof(T) == 1, "ranks exchange float, double, Bf16, int64_t and bytes");
    return ElementType::byte;
  }
}

enum class Reduction { sum, max, min };

/// A started collective. Tickets start in the same order on all ranks.
struct Ticket {
  std::int64_t number = -1;
};

enum class StartedKind { all_reduce_sum, reduce_scatter_sum, all_gather };

constexpr const char* to_string(StartedKind kind) {
  constexpr std::array<const char*, 3> names = {"all-reduce", "reduce-scatter", "all-gather"};
  return names[static_cast<std::size_t>(kind)];
}

/// What a started collective reads and writes: fp32 or bf16 numbers.
struct StartedCall {
  StartedKind kind = StartedKind::all_reduce_sum;
  ElementType type = ElementType::float32;
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;  ///< elements: all of an all-reduce, else those of one rank's part

  std::size_t element_bytes() const { return type == ElementType::bf16 ? sizeof(Bf16) : sizeof(float); }
  std::size_t bytes() const { return static_cast<std::size_t>(count) * element_bytes(); }
  std::size_t in_bytes(int ranks) const {
    return bytes() * static_cast<std::size_t>(kind == StartedKind::reduce_scatter_sum ? ranks : 1);
  }
  std::size_t out_bytes(int ranks) const {
    return bytes() * static_cast<std::size_t>(kind == StartedKind::all_gather ? ranks : 1);
  }
};

/// Ranks that work together. Every collective is called by all ranks in the same order; element counts are
/// 64-bit; results of sums are bitwise equal on all ranks. Blocking calls work on host memory, started ones
/// on the memory of the device that this communicator is paired with. Errors: RunError naming the call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks on this host, and which of them this is.
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;
  virtual std::string host() const = 0;
  /// One line for the log: library, algorithm, hosts.
  virtual std::string description() const = 0;
  /// What this rank does now: updated by the thread that works, read by the watchdog.
  virtual Activity& activity() { return activity_; }

  template <class T>
  void broadcast(std::span<T> values, int root) {
    broadcast_bytes(std::as_writable_bytes(values), root);
  }
  /// What `text` is on rank `root`; the others' may have any length.
  std::string broadcast_text(std::string text, int root) {
    auto size = static_cast<std::int64_t>(text.size());
    broadcast(std::span<std::int64_t>(&size, 1), root);
    text.resize(static_cast<std::size_t>(size));
    broadcast(std::span<char>(text), root);
    return text;
  }
  /// In place.
  template <class T>
  void all_reduce(std::span<T> values, Reduction reduction = Reduction::sum) {
    all_reduce_raw(values.data(), static_cast<std::int64_t>(values.size()), element_type<T>(), reduction);
  }
  template <class T>
  T all_reduce(T value, Reduction reduction = Reduction::sum) {
    all_reduce(std::span<T>(&value, 1), reduction);
    return value;
  }
  /// Every rank's `part`, in rank order; `all` holds R * part.size() elements.
  template <class T>
  void all_gather(std::span<const T> part, std::span<T> all) {
    check_parts(all.size(), part.size());
    all_gather_bytes(std::as_bytes(part), std::as_writable_bytes(all));
  }
  virtual void barrier() = 0;

  // Started forms proceed beside compute, on contiguous memory of float or Bf16. What they read must be whole
  // once `after` is done, and all their memory must stay put until what `wait` returned is done. Sums of bf16
  // numbers that are added up here are taken in fp32 and rounded once; a device's library may round on its
  // way.
  /// In place.
  template <class Values>
  Ticket start_all_reduce_sum(Values&& values, device::Completion after) {
    return start_on(StartedKind::all_reduce_sum, std::span(values), std::span(values), after);
  }
  /// Rank r receives part r of the sum of `values` (size R * part.size()). `part` may be the rank's own place
  /// in `values`, else they lie apart.
  template <class Values, class Part>
  Ticket start_reduce_scatter_sum(Values&& values, Part&& part, device::Completion after) {
    return start_on(StartedKind::reduce_scatter_sum, std::span(values), std::span(part), after);
  }
  /// Every rank's `part`, in rank order; `all` holds R * part.size() elements. `part` may be the rank's own
  /// place in `all`, else they lie apart.
  template <class Part, class All>
  Ticket start_all_gather(Part&& part, All&& all, device::Completion after) {
    return start_on(StartedKind::all_gather, std::span(part), std::span(all), after);
  }
  virtual Ticket start(const StartedCall& call, device::Completion after) = 0;
  /// Returns what the device has to wait for before it touches the memory: null where it is done, as on the
  /// host, which waits here.
  virtual device::Completion wait(Ticket ticket) = 0;
  /// On the way out after a failure: returns when nothing that was started here touches host memory any more,
  /// or after some seconds, where other ranks no longer come.
  virtual void settle() noexcept {}
  /// Whether started forms and their waits may be part of a graph.
  virtual bool recordable() const { return false; }

  /// Ends all ranks at once with this exit code; does not return. From any thread.
  [[noreturn]] virtual void abort(int code) = 0;

  virtual void broadcast_bytes(std::span<std::byte> bytes, int root) = 0;
  virtual void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) = 0;
  virtual void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) = 0;

 private:
  template <class In, class Out>
  Ticket start_on(StartedKind kind, In in, Out out, device::Completion after) {
    using T = typename Out::value_type;
    static_assert(std::is_same_v<T, typename In::value_type>);
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, Bf16>);
    const std::size_t part = kind == StartedKind::all_gather ? in.size() : out.size();
    if (kind != StartedKind::all_reduce_sum) check_parts(in.size() + out.size() - part, part);
    return start({kind, element_type<T>(), in.data(), out.data(), static_cast<std::int64_t>(part)}, after);
  }
  void check_parts(std::size_t all, std::size_t part) const {
    if (all != part * static_cast<std::size_t>(size()))
      throw std::logic_error(vaecf::format("{} elements are not {} parts of {}", all, size(), part));
  }

  Activity activity_;
};

/// Every rank's text, of any length, in rank order, on all ranks. Collective.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine);

/// A world of one: a real communicator, without MPI.
std::unique_ptr<Communicator> make_self_communicator();

/// True when mpirun, or srun with more than one task, started this process. A plain shell inside a Slurm
/// allocation carries SLURM_* variables too, but is no launch.
bool launched_by_mpi();

/// Returns what the MPI library that runs in this process brought along to carry messages, "TCP, UCX"; which
/// of it two ranks use is its own choice. Empty if it does not tell, or has not started.
std::string mpi_transports();

/// Makes a communicator of MPI_COMM_WORLD for host memory. Initializes MPI; the first one made finalizes it
/// when it is destroyed, unless an exception is unwinding: then other ranks may never come, and the process
/// should end by abort() or exit. A communicator made while another lives shares its MPI. After MPI has ended
/// there can be no other.
///
/// If ranks ask for different options.algorithm, the library's choice stands. MPI makes no progress by
/// itself: started forms run when they are waited for; with options.overlap `on` their messages are posted at
/// once, and all-reduces are sums by the owners of the parts. Only broadcasts may be longer than MPI counts
/// in 32 bits; for other calls that is a RunError. If MPI has not joined the ranks after
/// options.loading_timeout seconds, or has not ended a minute after it was asked to, a message and _Exit(1)
/// end this process. Throws InputError if a launcher started several processes that MPI does not join.
std::unique_ptr<Communicator> make_mpi_communicator(const DistributedOptions& options = {});

}  // namespace vaecf::comm
