#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/collectives.hpp>
#include <vaecf/models/item/ease_model.hpp>

#include "models/item/ease.hpp"

namespace vaecf::models {

std::vector<EaseValues> combinations(const EaseOptions& options) {
  std::vector<EaseValues> all;
  for (const double user_power : options.user_power)
    for (const double l2 : options.l2)
      for (const double dropout : options.dropout)
        for (const double relax : options.relax)
          for (const double kept_weight : options.kept_weight)
            all.push_back({l2, dropout, options.neighbors, user_power, relax, kept_weight});
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
  title += format(" l2 {:g}", values.l2);
  if (values.dropout > 0.0) title += format(" p {:g}", values.dropout);
  if (values.relax > 0.0) title += format(" relax {:g}", values.relax);
  if (values.kept_weight > 0.0) title += format(" kept {:g}", values.kept_weight);
  return title;
}

void EaseModel::set_columns(double relax, double kept_weight) {
  for (std::size_t j = 0; j < columns_.size(); ++j)
    factors_[j] = kept_weight > 0.0 ? math::kept_factor(columns_[j], dropout_, kept_weight)
                                    : math::relaxed_factor(columns_[j], dropout_, relax);
}

std::unique_ptr<EaseModel> solve_ease(const Interactions& train, const EaseValues& values,
                                      const run::RunContext& context, int threads) {
  std::unique_ptr<EaseModel> model;
  if (values.neighbors > 0)
    model = EaseK::solve(train, values, context, threads);
  else
    model = Ease::solve(train, values, context, threads);
  if (model) model->set_columns(values.relax, values.kept_weight);
  return model;
}

void throw_indefinite(double l2) {
  throw comm::on_all_ranks(
      InputError(format("model.ease.l2: with {:g} the matrix of EASE is not positive definite in fp32; "
                        "use a larger value",
                        l2)));
}

}  // namespace vaecf::models
