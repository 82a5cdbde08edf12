// Makes vaecf_dist with the emulated GPU of this host: replaces the CUDA runtime's facts and device, and
// NCCL, whose collectives become those of MPI, because emulated device memory is host memory.
#include <vaecf/comm/nccl.hpp>
#include <vaecf/device/cuda_info.hpp>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "device/cuda/device.hpp"
#include "support/cuda_emulator/runtime.hpp"

namespace vaecf {

cuda::Availability cuda::availability() {
  return {true, 1, ""};
}

cuda::CudaInfo cuda::query_cuda_info() {
  const Gpu gpu(0);
  return {0, 0, {{gpu.name(), gpu.id(), "", gpu.total_bytes(), min_compute_capability}}, {}};
}

std::unique_ptr<device::Device> cuda::make_device(const device::BackendOptions& options) {
  return std::make_unique<Device>(options, 0);
}

namespace comm {
namespace {

/// Forwards all calls to `control`. Non-blocking collectives start after the emulated work that precedes
/// them.
class EmulatedNccl final : public Communicator {
 public:
  explicit EmulatedNccl(Communicator& control) : control_(control) {}
  explicit EmulatedNccl(std::unique_ptr<Communicator> control)
      : own_control_(std::move(control)), control_(*own_control_) {}

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  int local_size() const override { return control_.local_size(); }
  int local_rank() const override { return control_.local_rank(); }
  std::string host() const override { return control_.host(); }
  std::string description() const override { return "emulated NCCL, through " + control_.description(); }
  Activity& activity() override { return control_.activity(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<EmulatedNccl>(control_.split(color, key));
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
  Request start(const AsyncCollective& call, device::EventHandle after) override {
    if (after.event != nullptr)
      cuda::emulator::run_until_point(*static_cast<const cuda::emulator::Point*>(after.event));
    return control_.start(call, {});
  }
  device::EventHandle wait(Request request) override { return control_.wait(request); }
  void quiesce() noexcept override { control_.quiesce(); }
  [[noreturn]] void abort(int code) override {
    control_.abort(code);
    std::_Exit(code);
  }

 private:
  std::unique_ptr<Communicator> own_control_;  // of a part
  Communicator& control_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control, const std::string&,
                                                     const NcclOptions&) {
  return std::make_unique<EmulatedNccl>(control);
}

std::string nccl_library() {
  return "emulated NCCL";
}

}  // namespace comm
}  // namespace vaecf
