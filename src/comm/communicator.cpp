#include <vaecf/base/host.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/usable_cores.hpp>

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

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

void run_on_root(Communicator& communicator, const std::function<void()>& work) {
  std::string message;
  auto code = static_cast<std::int64_t>(ExitCode::done);
  if (communicator.rank() == 0) {
    try {
      work();
    } catch (const Error& error) {
      message = error.what();
      code = static_cast<std::int64_t>(error.code());
    } catch (const std::exception& error) {
      message = error.what();
      code = static_cast<std::int64_t>(ExitCode::failed);
    }
  }
  communicator.broadcast(std::span<std::int64_t>(&code, 1), 0);
  if (code == static_cast<std::int64_t>(ExitCode::done)) return;
  message = communicator.broadcast_string(std::move(message), 0);
  if (code == static_cast<std::int64_t>(ExitCode::bad_input)) throw on_all_ranks(InputError(message));
  throw on_all_ranks(RunError(message));
}

bool query_root(Communicator& communicator, const std::function<bool()>& question) {
  std::int64_t answer = 0;
  run_on_root(communicator, [&] { answer = question() ? 1 : 0; });
  communicator.broadcast(std::span<std::int64_t>(&answer, 1), 0);
  return answer == 1;
}

void require_equal_on_all_ranks(Communicator& communicator, std::string_view text, std::string_view what) {
  const bool equal = communicator.broadcast_string(std::string(text), 0) == text;
  if (communicator.all_reduce(std::int64_t{equal}, Reduction::min) == 1) return;
  throw on_all_ranks(
      InputError(format("{} differs between ranks (this is rank {} of {} on {}); "
                        "check that all hosts have the same files and all ranks the same command line",
                        what, communicator.rank(), communicator.size(), communicator.host())));
}

std::int64_t usable_cores(Communicator& ranks) {
  cpu_set_t own{};
  // If the kernel returns no mask, as for more cores than a cpu_set_t can contain, assume all cores.
  if (sched_getaffinity(0, sizeof(own), &own) != 0)
    for (std::int64_t core = 0; core < host_cores(); ++core) CPU_SET(core, &own);
  const std::vector<std::string> hosts = all_gather_strings(ranks, ranks.host());
  std::vector<cpu_set_t> all(hosts.size());
  ranks.all_gather<std::byte>(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (hosts[rank] == ranks.host()) CPU_OR(&own, &own, &all[rank]);
  return ranks.all_reduce(std::int64_t{cores_within(cpu_limit(), CPU_COUNT(&own))}, Reduction::min);
}

}  // namespace vaecf::comm
