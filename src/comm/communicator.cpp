#include <vaecf/base/host.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/distributed_options.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vaecf::comm {
namespace {

/// The communicator of a single rank: every result equals this rank's input.
class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator() = default;
  explicit SelfCommunicator(Activity& shared) : Communicator(shared) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_size() const override { return 1; }
  int local_rank() const override { return 0; }
  std::string host() const override { return host_name(); }
  std::string description() const override { return "one process, without MPI"; }

  std::unique_ptr<Communicator> split(int, int) override {
    return std::make_unique<SelfCommunicator>(activity());
  }
  void barrier() override {}
  void broadcast_bytes(std::span<std::byte>, int) override {}
  void all_reduce_raw(void*, std::int64_t, ElementType, Reduction) override {}
  void all_gather_bytes(std::span<const std::byte> part, std::span<std::byte> all) override {
    std::ranges::copy(part, all.begin());
  }
  Request start(const AsyncCollective& call, device::EventHandle) override {
    if (call.count > 0) std::memmove(call.out, call.in, call.bytes());
    return {started_++};
  }
  device::EventHandle wait(Request request) override {
    if (request.id < 0 || request.id >= started_)
      throw std::logic_error(format("Communicator::wait: collective {} was never started", request.id));
    return {};
  }
  [[noreturn]] void abort(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }

 private:
  std::int64_t started_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

std::vector<std::string> all_gather_strings(Communicator& communicator, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto size = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(ranks);
  communicator.all_gather(std::span(&size, 1), std::span(sizes));
  const auto longest = static_cast<std::size_t>(std::ranges::max(sizes));
  std::string part = mine;
  part.resize(longest);
  std::string all(ranks * longest, '\0');
  communicator.all_gather(std::span<const char>(part), std::span<char>(all));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(all.substr(rank * longest, static_cast<std::size_t>(sizes[rank])));
  return texts;
}

}  // namespace vaecf::comm
