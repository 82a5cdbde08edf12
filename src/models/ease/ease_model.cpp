#include "models/ease/ease_model.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/comm/collective_checks.hpp>

#include <algorithm>
#include <functional>
#include <utility>

namespace vaecf::models {

EaseModel::EaseModel(Solution solution, double dropout, std::vector<math::LinearColumn> columns, int threads)
    : solution_(std::move(solution)), dropout_(dropout), threads_(threads), columns_(std::move(columns)) {
  set_columns(0.0, 0.0);
}

void EaseModel::set_columns(double relax, double kept_weight) {
  scale_.clear();
  for (const math::LinearColumn& column : columns_) {
    const double factor = kept_weight > 0.0 ? math::kept_factor(column, dropout_, kept_weight)
                                            : math::relaxed_factor(column, dropout_, relax);
    scale_.push_back(static_cast<float>(is_dense() ? -factor / column.inverse : factor));
  }
}

StoredWeights EaseModel::stored() const {
  if (const auto* weights = std::get_if<SparseWeights>(&solution_)) {
    StoredWeights stored = weights->stored();
    for (std::size_t k = 0; k < weights->data.size(); ++k)
      stored.owned.push_back(weights->data[k] * scale_[static_cast<std::size_t>(weights->indices[k])]);
    stored.arrays.back().values = std::span<const float>(stored.owned);
    return stored;
  }
  const auto& inverse = std::get<Inverse>(solution_);
  const auto read_rows = [this, &inverse](std::int64_t begin, std::int64_t end, std::span<float> out) {
    parallel_for(threads_, {begin, end}, [&](std::int64_t i) {
      float* to = &out[static_cast<std::size_t>((i - begin) * inverse.items)];
      std::ranges::transform(inverse.row(i), scale_, to, std::multiplies<>());
      to[i] = 0.0F;
    });
  };
  return {{{matrix_name, inverse.items, inverse.items, false, read_rows}}, {}};
}

void EaseModel::score(const SparseRow& history, std::span<float> scores) const {
  score_all(std::span(&history, 1), scores);
}

void EaseModel::score_all(std::span<const SparseRow> users, std::span<float> scores) const {
  const std::size_t items = scale_.size();
  const auto* sparse = std::get_if<SparseWeights>(&solution_);
  if (sparse == nullptr) {
    const auto row_of = [&](std::int64_t item) { return std::get<Inverse>(solution_).row(item).data(); };
    dense_scores(users, row_of, std::ssize(scale_), scores);
  }
  for (std::size_t u = 0; u < users.size(); ++u) {
    const std::span<float> own = scores.subspan(u * items, items);
    if (sparse != nullptr) {
      sparse->score(users[u], own);
    } else {
      for_elements(users[u], [&](std::int32_t item, float x) {
        const auto j = static_cast<std::size_t>(item);
        own[j] -= x * std::get<Inverse>(solution_).row(item)[j];
      });
    }
    for (std::size_t j = 0; j < items; ++j) own[j] *= scale_[j];
  }
}

float EaseModel::weight(std::int32_t source, std::int32_t target) const {
  const auto column = static_cast<std::size_t>(target);
  if (const auto* sparse = std::get_if<SparseWeights>(&solution_))
    return sparse->weight(source, target) * scale_[column];
  return source == target ? 0.0F : std::get<Inverse>(solution_).row(source)[column] * scale_[column];
}

std::unique_ptr<EaseModel> solve_ease(const Interactions& train, const EaseValues& values,
                                      const Context& context, int threads) {
  auto model = values.neighbors > 0 ? solve_neighborhoods(train, values, context, threads)
                                    : solve_inverse(train, values, context, threads);
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
