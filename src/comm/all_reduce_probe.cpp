#include <vaecf/comm/all_reduce_probe.hpp>

#include <algorithm>
#include <chrono>
#include <functional>

namespace vaecf::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// `count` sums of `elements` numbers each, and whatever has to be waited for behind them.
using Sums = std::function<void(std::int64_t elements, int count)>;

/// Of the slowest rank, per sum.
double time_of(Communicator& communicator, const Sums& sums, std::int64_t elements, int count) {
  communicator.barrier();
  const auto begin = Clock::now();
  sums(elements, count);
  const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
  return communicator.all_reduce(mine, Reduction::max) / count;
}

/// Every decision rests on times that all ranks share.
std::vector<AllReduceTime> measure(Communicator& communicator, std::vector<std::int64_t> elements,
                                   double budget, const Sums& sums) {
  constexpr int rounds = 5;
  constexpr int most_sums = 100;  // in a round
  std::vector<AllReduceTime> times;
  double spent = 0.0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const double growth =
        i == 0 ? 0.0 : static_cast<double>(elements[i]) / static_cast<double>(elements[i - 1]);
    const double expected = i == 0 ? 0.0 : times.back().seconds * growth;
    if (spent + 2.0 * expected > budget) break;
    // The first one may set things up: connections, buffers.
    const double first = time_of(communicator, sums, elements[i], 1);
    const double share = std::max(0.0, budget - spent - first) / static_cast<double>(elements.size() - i);
    double best = first;
    spent += first;
    const double enough = spent + share;
    const double affordable = share / (rounds * std::max(first, 1e-9));
    const int count = static_cast<int>(std::clamp(affordable, 1.0, static_cast<double>(most_sums)));
    for (int round = 0; round < rounds && (round == 0 || spent + best * count <= enough); ++round) {
      const double seconds = time_of(communicator, sums, elements[i], count);
      spent += seconds * count;
      best = std::min(best, seconds);
    }
    times.push_back({elements[i] * static_cast<std::int64_t>(sizeof(float)), best});
  }
  return times;
}

/// Ascending numbers of elements.
std::vector<std::int64_t> elements_of(std::span<const std::int64_t> bytes) {
  std::vector<std::int64_t> elements;
  for (const std::int64_t size : bytes) elements.push_back(std::max<std::int64_t>(1, (size + 3) / 4));
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}

}  // namespace

std::vector<std::int64_t> all_reduce_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 4; bytes <= std::int64_t{64} << 20; bytes *= 8) sizes.push_back(bytes);
  return sizes;
}

std::vector<AllReduceTime> measure_all_reduce(Communicator& communicator, std::span<const std::int64_t> sizes,
                                              double budget) {
  const auto elements = elements_of(sizes);
  if (communicator.size() == 1 || elements.empty()) return {};
  std::vector<float> values(static_cast<std::size_t>(elements.back()));
  return measure(communicator, elements, budget, [&](std::int64_t n, int count) {
    for (int i = 0; i < count; ++i) {
      communicator.all_reduce(std::span<float>(values).first(static_cast<std::size_t>(n)));
    }
  });
}

std::vector<AllReduceTime> measure_all_reduce(
    Communicator& communicator, std::span<const std::int64_t> sizes, double budget,
    const std::function<void(std::int64_t elements, int count)>& sums) {
  return measure(communicator, elements_of(sizes), budget, sums);
}

}  // namespace vaecf::comm
