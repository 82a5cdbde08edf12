#include "app/doctor/measurements.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <span>

#include "app/gather.hpp"

namespace vaecf::app {

std::vector<train::MachineRates> gather_rates(comm::Communicator& communicator,
                                              const train::MachineRates& mine) {
  constexpr std::size_t fields = 3;
  const std::array<double, fields> part = {mine.fp32_gflops, mine.bf16_gflops, mine.memory_gbytes};
  std::vector<double> all(fields * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span<const double>(part), std::span<double>(all));
  std::vector<train::MachineRates> rates;
  for (std::size_t i = 0; i < all.size(); i += fields) {
    rates.push_back({all[i], all[i + 1], all[i + 2], "", ""});
  }
  return rates;
}

std::vector<Finding> check_pace(const DeviceMeasurements& measured) {
  constexpr double much_slower = 0.7;
  std::vector<double> rates;
  for (const train::MachineRates& rank : measured.ranks) rates.push_back(rank.fp32_gflops);
  if (rates.size() < 2) return {};
  std::vector<double> sorted = rates;
  std::sort(sorted.begin(), sorted.end());
  const double usual = sorted[sorted.size() / 2];
  std::vector<int> slow;
  double slowest = usual;
  for (std::size_t rank = 0; rank < rates.size(); ++rank) {
    if (rates[rank] >= much_slower * usual) continue;
    slow.push_back(static_cast<int>(rank));
    slowest = std::min(slowest, rates[rank]);
  }
  if (slow.empty()) return {};
  return {
      {"pace", Health::warn,
       format("on {}, rank{} {}: {}{:.0f} GFLOP/s, where the median is {:.0f}", measured.device,
              slow.size() == 1 ? "" : "s", list_of(slow), slow.size() == 1 ? "" : "down to ", slowest, usual),
       "all ranks wait for the slowest: see what else runs on its cores, whether it is bound like the "
       "others, and whether its host is of the same kind; then ask again"}};
}

}  // namespace vaecf::app
