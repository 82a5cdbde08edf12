#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/math/metrics.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::train {

/// Which share of the catalogue is recommended to anybody: coverage@k counts the items that are among the
/// first k of at least one user who has a target (Ge, Delgado-Battenfeld, Jannach, RecSys 2010, "catalogue
/// coverage").
class Coverage {
 public:
  /// For each of `metrics`, all of kind coverage.
  Coverage(const std::vector<math::Metric>& metrics, std::int64_t items);

  /// How long lists must be; 0 where nothing is asked for.
  int longest() const { return longest_; }
  /// One user's list, best first; it ends at the first negative item.
  void add(std::span<const std::int32_t> list);
  /// Shares by metric, over all ranks, which all call it.
  std::vector<double> shares(comm::Communicator& communicator);

 private:
  std::vector<math::Metric> metrics_;
  int longest_ = 0;
  std::vector<std::int64_t> best_place_;  // of each item in any list; beyond all lists where in none
};

}  // namespace vaecf::train
