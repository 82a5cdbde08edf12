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
  void broadcast_bytes(std::span<std::byte> bytes, int root) override { host_.broadcast_bytes(bytes, root); }
  void all_reduce_raw(void* values, std::int64_t count, comm::ElementType type,
                      comm::Reduction reduction) override {
    host_.all_reduce_raw(values, count, type, reduction);
  }
  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    host_.all_gather_bytes(part, all);
  }

  comm::Ticket start(const comm::StartedCall& call, backend::Completion after) override {
    require_device(call.in, static_cast<std::int64_t>(call.in_bytes(size())), "a started collective");
    require_device(call.out, static_cast<std::int64_t>(call.out_bytes(size())), "a started collective");
    if (after.event != nullptr) run_until_point(*static_cast<const Point*>(after.event));
    return host_.start(call, {});
  }
  backend::Completion wait(comm::Ticket ticket) override { return host_.wait(ticket); }
  [[noreturn]] void abort(int code) override {
    host_.abort(code);
    std::terminate();  // compilers forget the promise of a virtual call
  }

 private:
  comm::Communicator& host_;
};

}  // namespace vaecf::cuda::twin
