#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/comm/communicator.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace vaecf::comm {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_size() const override { return 1; }
  int local_rank() const override { return 0; }
  std::string host() const override { return host_name(); }
  std::string description() const override { return "one process, without MPI"; }

  void reduce_scatter_sum(std::span<const float> values, std::span<float> part) override {
    copy(std::as_bytes(values), std::as_writable_bytes(part), "reduce_scatter_sum");
  }
  void barrier() override {}

  Ticket start_all_reduce_sum(std::span<float>, backend::Completion) override { return next(); }
  Ticket start_all_reduce_sum(std::span<Bf16>, backend::Completion) override { return next(); }
  Ticket start_reduce_scatter_sum(std::span<const float> values, std::span<float> part,
                                  backend::Completion) override {
    copy(std::as_bytes(values), std::as_writable_bytes(part), "reduce_scatter_sum");
    return next();
  }
  Ticket start_reduce_scatter_sum(std::span<const Bf16> values, std::span<Bf16> part,
                                  backend::Completion) override {
    copy(std::as_bytes(values), std::as_writable_bytes(part), "reduce_scatter_sum");
    return next();
  }
  Ticket start_all_gather(std::span<const float> part, std::span<float> all, backend::Completion) override {
    copy(std::as_bytes(part), std::as_writable_bytes(all), "all_gather");
    return next();
  }
  Ticket start_all_gather(std::span<const Bf16> part, std::span<Bf16> all, backend::Completion) override {
    copy(std::as_bytes(part), std::as_writable_bytes(all), "all_gather");
    return next();
  }
  backend::Completion wait(Ticket ticket) override {
    if (ticket.number < 0 || ticket.number >= tickets_) {
      throw std::logic_error(vaecf::format("wait: ticket {} was never started", ticket.number));
    }
    return {};
  }

  [[noreturn]] void abort(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }

  void broadcast_bytes(std::span<std::byte>, int root) override {
    if (root != 0) throw std::logic_error(vaecf::format("broadcast: no rank {} in a world of one", root));
  }
  void all_reduce_raw(void*, std::int64_t, ElementType, Reduction) override {}
  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    copy(part, all, "all_gather");
  }

 private:
  Ticket next() { return {tickets_++}; }
  static void copy(std::span<const std::byte> from, std::span<std::byte> to, const char* call) {
    if (from.size() != to.size()) {
      throw std::logic_error(
          vaecf::format("{}: {} bytes for {} in a world of one", call, from.size(), to.size()));
    }
    if (!from.empty()) std::memmove(to.data(), from.data(), from.size());
  }

  std::int64_t tickets_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace vaecf::comm
