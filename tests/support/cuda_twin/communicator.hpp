#pragma once

#include <vaecf/comm/communicator.hpp>

#include "support/cuda_twin/world.hpp"

namespace vaecf::cuda::twin {

/// Pairs a communicator of host memory with the twin, whose memory lies there too. Started calls wait for the
/// work that they come after: no memory is seen before it is written.
class TwinCommunicator : public comm::Communicator {
 public:
  explicit TwinCommunicator(comm::Communicator& host) : host_(host) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int local_size() const override { return host_.local_size(); }
  int local_rank() const override { return host_.local_rank(); }
  std::string host() const override { return host_.host(); }
  std::string description() const override { return host_.description(); }
  void barrier() override { host_.barrier(); }
  void reduce_scatter_sum(std::span<const float> values, std::span<float> part) override {
    host_.reduce_scatter_sum(values, part);
  }
  void broadcast_bytes(std::span<std::byte> bytes, int root) override { host_.broadcast_bytes(bytes, root); }
  void all_reduce_raw(void* values, std::int64_t count, comm::ElementType type,
                      comm::Reduction reduction) override {
    host_.all_reduce_raw(values, count, type, reduction);
  }
  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    host_.all_gather_bytes(part, all);
  }

  comm::Ticket start_all_reduce_sum(std::span<float> values, backend::Completion after) override {
    return host_.start_all_reduce_sum(device(values, after), {});
  }
  comm::Ticket start_all_reduce_sum(std::span<Bf16> values, backend::Completion after) override {
    return host_.start_all_reduce_sum(device(values, after), {});
  }
  comm::Ticket start_reduce_scatter_sum(std::span<const float> values, std::span<float> part,
                                        backend::Completion after) override {
    return host_.start_reduce_scatter_sum(device(values, after), device(part, after), {});
  }
  comm::Ticket start_reduce_scatter_sum(std::span<const Bf16> values, std::span<Bf16> part,
                                        backend::Completion after) override {
    return host_.start_reduce_scatter_sum(device(values, after), device(part, after), {});
  }
  comm::Ticket start_all_gather(std::span<const float> part, std::span<float> all,
                                backend::Completion after) override {
    return host_.start_all_gather(device(part, after), device(all, after), {});
  }
  comm::Ticket start_all_gather(std::span<const Bf16> part, std::span<Bf16> all,
                                backend::Completion after) override {
    return host_.start_all_gather(device(part, after), device(all, after), {});
  }
  backend::Completion wait(comm::Ticket ticket) override { return host_.wait(ticket); }
  [[noreturn]] void abort(int code) override {
    host_.abort(code);
    std::terminate();  // compilers forget the promise of a virtual call
  }

 private:
  template <class T>
  static std::span<T> device(std::span<T> memory, backend::Completion after) {
    require_device(memory.data(), static_cast<std::int64_t>(memory.size_bytes()), "a started collective");
    if (after.event != nullptr) run_until_point(*static_cast<const Point*>(after.event));
    return memory;
  }

  comm::Communicator& host_;
};

}  // namespace vaecf::cuda::twin
