#include "models/ease/ease_values.hpp"

#include <vaecf/base/log.hpp>

namespace vaecf::models {

std::vector<EaseValues> combinations(const EaseOptions& options) {
  std::vector<EaseValues> all;
  for (const double user_power : options.user_power)
    for (const double feature_weight : options.feature_weight)
      for (const double l2 : options.l2)
        for (const double dropout : options.dropout)
          for (const double relax : options.relax)
            for (const double kept_weight : options.kept_weight)
              all.push_back({l2, dropout, options.neighbors, user_power, relax, kept_weight, feature_weight});
  return all;
}

std::int64_t inverses_of(const std::vector<EaseValues>& candidates) {
  std::int64_t count = 0;
  for (std::size_t c = 0; c < candidates.size(); ++c)
    if (c == 0 || !candidates[c].same_inverse(candidates[c - 1])) ++count;
  return count;
}

std::string ease_title(const EaseValues& values) {
  std::string title = "EASE";
  if (values.neighbors > 0) title += format(" K {}", values.neighbors);
  if (values.user_power > 0.0) title += format(" b {:g}", values.user_power);
  if (values.feature_weight > 0.0) title += format(" features {:g}", values.feature_weight);
  title += format(" l2 {:g}", values.l2);
  if (values.dropout > 0.0) title += format(" p {:g}", values.dropout);
  if (values.relax > 0.0) title += format(" relax {:g}", values.relax);
  if (values.kept_weight > 0.0) title += format(" kept {:g}", values.kept_weight);
  return title;
}

}  // namespace vaecf::models
