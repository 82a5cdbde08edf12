#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/nccl.hpp>

#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/nccl/nccl_comm.hpp"

namespace vaecf::comm {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw RunError(vaecf::format("GPU: {} for NCCL failed: {}", what, cudaGetErrorString(status)));
}

struct EventDeleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  return Event(event);
}

struct StreamDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::shared_ptr<std::remove_pointer_t<cudaStream_t>>;

/// Creates a stream of the highest priority: other ranks wait for communication, but not for this rank's
/// compute.
Stream make_stream() {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "querying the stream priorities");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "creating a stream");
  return {stream, StreamDeleter()};
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& control, const std::string& device_id, const NcclOptions& options)
      : control_(control),
        settings_(negotiate_nccl_settings(control, options, device_id, NcclComm::version())),
        timeout_(options.timeout),
        nccl_comm_(control, timeout_) {
    activity().set_device_check([this] { check_all(); });
  }
  /// Makes the part of `parent` of the ranks of `control`, which was split from the parent's. Collective.
  NcclCommunicator(NcclCommunicator& parent, std::unique_ptr<Communicator> control)
      : own_control_(std::move(control)),
        control_(*own_control_),
        settings_(parent.settings_),
        timeout_(parent.timeout_),
        stream_(parent.stream_),
        parent_(&parent),
        nccl_comm_(control_, timeout_) {
    const std::lock_guard lock(parent.parts_mutex_);
    parent.parts_.push_back(this);
  }

  ~NcclCommunicator() override {
    if (parent_ == nullptr) {
      activity().set_device_check({});
    } else {
      const std::lock_guard lock(parent_->parts_mutex_);
      std::erase(parent_->parts_, this);
    }
  }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  int local_size() const override { return control_.local_size(); }
  int local_rank() const override { return control_.local_rank(); }
  std::string host() const override { return control_.host(); }
  std::string description() const override {
    return vaecf::format("NCCL {}, {}, through {}", nccl_version_string(settings_.version),
                         describe_nccl_algorithm(settings_), control_.description());
  }

  Activity& activity() override { return control_.activity(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<NcclCommunicator>(*this, control_.split(color, key));
  }

  void barrier() override { control_.barrier(); }
  void broadcast_bytes(std::span<std::byte> bytes, int root) override {
    control_.broadcast_bytes(bytes, root);
  }
  void all_reduce_raw(void* values, std::int64_t count, ElementType type, Reduction reduction) override {
    control_.all_reduce_raw(values, count, type, reduction);
  }
  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    control_.all_gather_bytes(part, all);
  }
  [[noreturn]] void abort(int code) override {
    if (parent_ != nullptr) parent_->abort(code);
    activity().set_device_check({});
    abort_all();
    control_.abort(code);
    std::_Exit(code);
  }

  /// During graph capture, waiting for `after` makes this stream part of the captured graph, and the device's
  /// wait for the returned event joins it again.
  Request start(const AsyncCollective& call, device::EventHandle after) override {
    activity().enter_collective();
    if (after.event != nullptr) {
      check(cudaStreamWaitEvent(stream_.get(), static_cast<cudaEvent_t>(after.event), 0),
            "waiting for an event");
    }
    if (call.count > 0) {
      const char* type = call.type == ElementType::bf16 ? "bf16" : "fp32";
      nccl_comm_.start(vaecf::format("{} of {} {} elements (collective {} of this run)", to_string(call.kind),
                                     call.count, type, next_ + 1),
                       [&](ncclComm_t comm) { return enqueue(call, comm); });
    }
    Event event = next_event();
    check(cudaEventRecord(event.get(), stream_.get()), "recording an event");
    open_.emplace(next_, std::move(event));
    return {next_++};
  }

  device::EventHandle wait(Request request) override {
    const auto place = open_.find(request.id);
    if (place == open_.end()) {
      throw std::logic_error(vaecf::format(
          "Communicator::wait: collective {} was never started, or has been waited for", request.id));
    }
    used_.push_back(std::move(place->second));
    open_.erase(place);
    return {used_.back().get()};
  }
  bool supports_graph_capture() const override { return true; }

 private:
  /// Throws RunError if NCCL reports an error of this communicator or of a part of it.
  void check_all() {
    nccl_comm_.check();
    const std::lock_guard lock(parts_mutex_);
    for (NcclCommunicator* part : parts_) part->check_all();
  }
  void abort_all() noexcept {
    const std::lock_guard lock(parts_mutex_);
    for (NcclCommunicator* part : parts_) part->abort_all();
    nccl_comm_.abort();
  }
  ncclResult_t enqueue(const AsyncCollective& call, ncclComm_t comm) const {
    const auto count = static_cast<std::size_t>(call.count);
    const ncclDataType_t type = call.type == ElementType::bf16 ? ncclBfloat16 : ncclFloat32;
    switch (call.kind) {
      case CollectiveKind::all_reduce_sum:
        return ncclAllReduce(call.in, call.out, count, type, ncclSum, comm, stream_.get());
      case CollectiveKind::reduce_scatter_sum:
        return ncclReduceScatter(call.in, call.out, count, type, ncclSum, comm, stream_.get());
      case CollectiveKind::all_gather:
        return ncclAllGather(call.in, call.out, count, type, comm, stream_.get());
    }
    return ncclInvalidArgument;
  }

  /// Returns an event to record. An event is reused only after wait() has returned 64 others.
  Event next_event() {
    constexpr std::size_t rest = 64;
    if (used_.size() <= rest) return make_event();
    Event event = std::move(used_.front());
    used_.pop_front();
    return event;
  }

  std::unique_ptr<Communicator> own_control_;  // of a part
  Communicator& control_;
  NcclSettings settings_;
  double timeout_;
  Stream stream_ = make_stream();  // of this communicator and its parts
  NcclCommunicator* parent_ = nullptr;
  std::mutex parts_mutex_;
  std::vector<NcclCommunicator*> parts_;  // communicators that were split from this one
  std::deque<Event> used_;                // events that wait() has returned, the oldest first
  std::map<std::int64_t, Event> open_;    // events of collectives that are not waited for yet
  std::int64_t next_ = 0;
  NcclComm nccl_comm_;  // destroyed before its stream
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, const std::string& device_id,
                                                     const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(control, device_id, options);
}

std::string nccl_library() {
  return vaecf::format("NCCL {}", nccl_version_string(NcclComm::version()));
}

}  // namespace vaecf::comm
