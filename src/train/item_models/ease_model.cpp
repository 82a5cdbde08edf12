#include "train/item_models/ease_model.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/collectives.hpp>

#include "train/item_models/ease.hpp"
#include "train/item_models/ease_k.hpp"

namespace vaecf::train {

void EaseModel::set_columns(double relax, double kept_weight) {
  for (std::size_t j = 0; j < columns_.size(); ++j)
    factors_[j] = kept_weight > 0.0 ? math::kept_factor(columns_[j], dropout_, kept_weight)
                                    : math::relaxed_factor(columns_[j], dropout_, relax);
}

std::unique_ptr<EaseModel> solve_ease(const Interactions& train, const EaseValues& values,
                                      const RunContext& context, int threads) {
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

}  // namespace vaecf::train
