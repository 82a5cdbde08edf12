#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/nccl.hpp>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "nccl_agreement.hpp"
#include "nccl_connection.hpp"
#include "nccl_settings.hpp"

namespace vaecf::comm {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw RunError(vaecf::format("GPU: {} for NCCL failed: {}", what, cudaGetErrorString(status)));
}

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// As urgent as can be: what other ranks wait for goes before what only this one computes.
class Stream {
 public:
  Stream() {
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for stream priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "making a stream");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void wait_for(backend::Completion done) {
    if (done.event == nullptr) return;
    check(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(done.event), 0), "waiting for an event");
  }
  void record(const Event& event) { check(cudaEventRecord(event.get(), stream_), "recording an event"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Events of tickets: one is used again only when 64 others have been handed back since.
class Events {
 public:
  Event take() {
    constexpr std::size_t rest = 64;
    if (free_.size() <= rest) return {};
    Event event = std::move(free_.front());
    free_.pop_front();
    return event;
  }
  backend::Completion give_back(Event event) {
    free_.push_back(std::move(event));
    return {free_.back().get()};
  }

 private:
  std::deque<Event> free_;
};

ncclUniqueId share_id(Communicator& control) {
  // An id of zeros: rank 0 has none, and says why.
  ncclUniqueId id{};
  std::exception_ptr error;
  if (control.rank() == 0) {
    try {
      id = make_nccl_id();
    } catch (...) {
      error = std::current_exception();
    }
  }
  control.broadcast(std::span<char>(id.internal), 0);
  if (error) std::rethrow_exception(error);
  const ncclUniqueId none{};
  if (std::memcmp(&id, &none, sizeof(id)) == 0) {
    throw RunError("NCCL does not start on rank 0: see what that rank says");
  }
  return id;
}

template <class T>
constexpr ncclDataType_t nccl_type() {
  return std::is_same_v<T, float> ? ncclFloat32 : ncclBfloat16;
}

template <class T>
constexpr const char* type_name() {
  return std::is_same_v<T, float> ? "fp32" : "bf16";
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& control, const std::string& device_id, const NcclOptions& options)
      : control_(control),
        settings_(agree_on_nccl(control, options, device_id, nccl_version())),
        connection_(share_id(control), control, options.timeout) {
    activity().set_device_check([this] { connection_.check(); });
  }

  ~NcclCommunicator() override { activity().set_device_check({}); }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  int local_size() const override { return control_.local_size(); }
  int local_rank() const override { return control_.local_rank(); }
  std::string host() const override { return control_.host(); }
  std::string description() const override {
    return vaecf::format("NCCL {}, {}, through {}", nccl_version_text(settings_.version),
                         nccl_choice(settings_), control_.description());
  }

  Activity& activity() override { return control_.activity(); }

  void barrier() override { control_.barrier(); }
  void reduce_scatter_sum(std::span<const float> values, std::span<float> part) override {
    control_.reduce_scatter_sum(values, part);
  }
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
    activity().set_device_check({});
    connection_.abandon();
    control_.abort(code);
    std::_Exit(code);
  }

  Ticket start_all_reduce_sum(std::span<float> values, backend::Completion after) override {
    return all_reduce_sum(values, after);
  }
  Ticket start_all_reduce_sum(std::span<Bf16> values, backend::Completion after) override {
    return all_reduce_sum(values, after);
  }
  Ticket start_reduce_scatter_sum(std::span<const float> values, std::span<float> part,
                                  backend::Completion after) override {
    return scatter_sum(values, part, after);
  }
  Ticket start_reduce_scatter_sum(std::span<const Bf16> values, std::span<Bf16> part,
                                  backend::Completion after) override {
    return scatter_sum(values, part, after);
  }
  Ticket start_all_gather(std::span<const float> part, std::span<float> all,
                          backend::Completion after) override {
    return gather(part, all, after);
  }
  Ticket start_all_gather(std::span<const Bf16> part, std::span<Bf16> all,
                          backend::Completion after) override {
    return gather(part, all, after);
  }

  backend::Completion wait(Ticket ticket) override {
    const auto place = open_.find(ticket.number);
    if (place == open_.end()) {
      throw std::logic_error(
          vaecf::format("wait: ticket {} was never started, or waited for before", ticket.number));
    }
    const backend::Completion done = events_.give_back(std::move(place->second));
    open_.erase(place);
    return done;
  }
  bool recordable() const override { return true; }

 private:
  template <class T>
  Ticket all_reduce_sum(std::span<T> values, backend::Completion after) {
    return start("an all-reduce", type_name<T>(), values.size(), after, [&](ncclComm_t comm) {
      return ncclAllReduce(values.data(), values.data(), values.size(), nccl_type<T>(), ncclSum, comm,
                           stream_.get());
    });
  }
  template <class T>
  Ticket scatter_sum(std::span<const T> values, std::span<T> part, backend::Completion after) {
    check_parts(values.size(), part.size(), "start_reduce_scatter_sum");
    return start("a reduce-scatter", type_name<T>(), part.size(), after, [&](ncclComm_t comm) {
      return ncclReduceScatter(values.data(), part.data(), part.size(), nccl_type<T>(), ncclSum, comm,
                               stream_.get());
    });
  }
  template <class T>
  Ticket gather(std::span<const T> part, std::span<T> all, backend::Completion after) {
    check_parts(all.size(), part.size(), "start_all_gather");
    return start("an all-gather", type_name<T>(), part.size(), after, [&](ncclComm_t comm) {
      return ncclAllGather(part.data(), all.data(), part.size(), nccl_type<T>(), comm, stream_.get());
    });
  }

  /// Within a recording the stream joins it by `after`, and the backend's wait for the event leads back.
  template <class Call>
  Ticket start(const char* kind, const char* type, std::size_t count, backend::Completion after,
               const Call& call) {
    activity().enter_collective();
    stream_.wait_for(after);
    if (count > 0) {
      connection_.start(
          vaecf::format("{} of {} {} numbers (number {} in this run)", kind, count, type, next_ + 1), call);
    }
    Event event = events_.take();
    stream_.record(event);
    open_.emplace(next_, std::move(event));
    return {next_++};
  }

  void check_parts(std::size_t all, std::size_t part, const char* name) const {
    if (all != part * static_cast<std::size_t>(size())) {
      throw std::logic_error(
          vaecf::format("{}: {} elements are not {} parts of {}", name, all, size(), part));
    }
  }

  Communicator& control_;
  NcclSettings settings_;
  Stream stream_;
  Events events_;
  std::map<std::int64_t, Event> open_;  // of tickets not waited for yet
  std::int64_t next_ = 0;
  NcclConnection connection_;  // ends before its stream
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, const std::string& device_id,
                                                     const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(control, device_id, options);
}

}  // namespace vaecf::comm
