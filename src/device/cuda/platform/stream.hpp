#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace vaecf::cuda {

enum class Timing { off, on };

class Event {
 public:
  /// Timing::on is required for seconds_between().
  explicit Event(Timing timing = Timing::off);
  /// Returns whether the work before this point is done; true if nothing was recorded. Throws RunError if the
  /// device failed.
  bool done() const;
  void* native() const;  ///< cudaEvent_t
  /// Returns the device time between two timed events, which must be done.
  static double seconds_between(const Event& from, const Event& to);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Operations captured from a stream, which can be run repeatedly.
class CapturedGraph {
 public:
  struct State;
  explicit CapturedGraph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Kernels of a stream with raised priority start before those of other streams; only communication has a
/// higher one.
enum class StreamPriority { normal, raised };

/// A CUDA stream: executes operations in order. Only `synchronize`, and copies of pageable host memory, block
/// the host.
class Stream {
 public:
  explicit Stream(StreamPriority priority = StreamPriority::normal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void copy_h2d(void* device, const void* host, std::int64_t bytes);  ///< asynchronous if `host` is pinned
  void copy_d2h(void* host, const void* device, std::int64_t bytes);  ///< asynchronous if `host` is pinned
  void copy(void* to, const void* from, std::int64_t bytes);          ///< within device memory
  void memset_zero(void* device, std::int64_t bytes);
  /// Moves `event` to the current end of the stream.
  void record(Event& event);
  /// Makes later operations wait for `event`, a native event of any stream; null: does nothing.
  void wait_event(void* event);
  /// Blocks until all operations are done. Throws RunError if the device failed.
  void synchronize();

  /// Operations on this stream, and on streams that wait for it, are captured instead of run until
  /// end_capture(). Other threads can use their own streams and events in the meantime (capture mode: thread
  /// local).
  void begin_capture();
  /// Ends the capture and returns the graph. Throws if this stream does not wait for all captured work of
  /// other streams.
  CapturedGraph end_capture();
  void run(const CapturedGraph& graph);
  bool capturing() const;

  void* native() const;  ///< cudaStream_t

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::cuda
