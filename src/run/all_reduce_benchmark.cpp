#include <vaecf/base/timeline.hpp>
#include <vaecf/run/all_reduce_benchmark.hpp>

namespace vaecf::run {

std::vector<std::int64_t> all_reduce_benchmark_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 4; bytes <= std::int64_t{64} << 20; bytes *= 8) sizes.push_back(bytes);
  return sizes;
}

std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                std::span<const std::int64_t> sizes, double budget,
                                                const RunAllReduces& sums) {
  constexpr int rounds = 5;
  constexpr double max_sums = 100.0;  // in a round
  // Returns seconds per all-reduce on the slowest rank, so that all ranks make the same decisions.
  const auto time_of = [&](std::int64_t elements, int count) {
    communicator.barrier();
    const auto begin = Clock::now();
    sums(elements, count);
    const double mine = seconds_since(begin);
    return communicator.all_reduce(mine, comm::Reduction::max) / count;
  };
  std::vector<AllReduceTiming> times;
  double spent = 0.0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t elements = (sizes[i] + 3) / 4;
    const double growth = i == 0 ? 0.0 : static_cast<double>(sizes[i]) / static_cast<double>(sizes[i - 1]);
    if (i > 0 && spent + 2.0 * times.back().seconds * growth > budget) break;
    // The first call of a size may set up connections and buffers; it only gives the number of repetitions.
    double best = time_of(elements, 1);
    spent += best;
    const double share = std::max(0.0, budget - spent) / static_cast<double>(sizes.size() - i);
    const double enough = spent + share;
    const int count = static_cast<int>(std::clamp(share / (rounds * std::max(best, 1e-9)), 1.0, max_sums));
    for (int round = 0; round < rounds && (round == 0 || spent + best * count <= enough); ++round) {
      const double seconds = time_of(elements, count);
      spent += seconds * count;
      best = std::min(best, seconds);
    }
    times.push_back({elements * std::int64_t{sizeof(float)}, best});
  }
  return times;
}

std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                std::span<const std::int64_t> sizes, double budget) {
  if (communicator.size() == 1 || sizes.empty()) return {};
  std::vector<float> values(sizes.back() / 4 + 1);
  return measure_all_reduce(communicator, sizes, budget, [&](std::int64_t n, int count) {
    for (int i = 0; i < count; ++i) communicator.all_reduce(std::span<float>(values).first(n));
  });
}

std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator, device::Device& device,
                                                std::span<const std::int64_t> sizes, double budget) {
  if (communicator.size() == 1 || sizes.empty()) return {};
  device::Buffer values = device.make_buffer(sizes.back() / 4 + 1);
  device.synchronize();
  return measure_all_reduce(communicator, sizes, budget, [&](std::int64_t n, int count) {
    for (int i = 0; i < count; ++i) {
      const comm::Request sum = communicator.all_reduce_async(
          std::span<float>(values.data(), static_cast<std::size_t>(n)), device.record_event());
      device.wait_event(communicator.wait(sum));
    }
    device.synchronize();
  });
}

}  // namespace vaecf::run
