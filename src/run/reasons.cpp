#include "run/reasons.hpp"

#include <vaecf/base/parallel_for.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/checkpoint/load_scorer.hpp>
#include <vaecf/math/loss.hpp>
#include <vaecf/math/ranking.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace vaecf::run {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Returns NaN for all contributions of the items `seen` to `k` items each.
std::vector<float> no_contributions(CsrView seen, std::int64_t k) {
  return std::vector<float>(seen.entries() * k, nan);
}

/// Returns the contributions of user `row` to item `slot` of the user's list.
std::span<float> contributions_of(std::span<float> values, CsrView seen, std::int64_t k, std::int64_t row,
                                  std::int64_t slot) {
  const std::int64_t size = seen.row_size(row);
  return values.subspan((seen.offsets[row] - seen.offsets[0]) * k + slot * size, size);
}

/// Contributions in a linear model, which add up to the score.
class LinearReasons : public Reasons {
 public:
  explicit LinearReasons(int threads) : threads_(threads) {}

  Contributions contributions(CsrView seen, CsrView /*last*/, CsrView /*features*/,
                              std::span<const std::int32_t> listed, std::int64_t k) final {
    Contributions found{no_contributions(seen, k), std::vector<double>(seen.rows())};
    parallel_for(threads_, {0, seen.rows()}, [&](std::int64_t row) {
      const SparseRow history = seen.sparse_row(row);
      const double norm = norm_of(history);
      found.scales[row] = scale(history, norm);
      for (std::int64_t slot = 0; slot < k; ++slot) {
        const std::int32_t item = listed[row * k + slot];
        if (item < 0) continue;
        const std::span<float> to = contributions_of(found.values, seen, k, row, slot);
        for (std::size_t n = 0; n < to.size(); ++n)
          to[n] = contribution(history.columns[n], history.value(n), item, norm);
      }
    });
    return found;
  }

 private:
  /// Returns |x| of a user.
  static double norm_of(const SparseRow& history) {
    if (history.values.empty()) return std::sqrt(static_cast<double>(history.columns.size()));
    double squares = 0.0;
    for (const double value : history.values) squares += value * value;
    return std::sqrt(squares);
  }
  /// Returns the contribution of item `source`, whose value is `x`, of a user with |x| = `norm` to the score
  /// of `item`.
  virtual float contribution(std::int32_t source, float x, std::int32_t item, double norm) const = 0;
  /// Returns the element of Contributions::scales for a user with |x| = `norm`.
  virtual double scale(const SparseRow& history, double norm) const = 0;

  int threads_;
};

class ItemReasons final : public LinearReasons {
 public:
  ItemReasons(std::shared_ptr<const models::ItemModel> model, int threads)
      : LinearReasons(threads), model_(std::move(model)) {}

 private:
  float contribution(std::int32_t source, float x, std::int32_t item, double /*norm*/) const override {
    return x * model_->weight(source, item);
  }
  double scale(const SparseRow& /*history*/, double /*norm*/) const override { return 0.0; }

  std::shared_ptr<const models::ItemModel> model_;
};

/// Contributions in ELSA. The scores of a user are x A A' / |x|: unlike its loss, the model's scores contain
/// the product of an item with itself.
class ElsaReasons final : public LinearReasons {
 public:
  /// `weights` (items, width) are those of the checkpoint.
  ElsaReasons(std::vector<float> weights, std::int64_t width, int threads)
      : LinearReasons(threads), table_(std::move(weights)), width_(width) {
    for (std::int64_t begin = 0; begin < std::ssize(table_); begin += width_) {
      const std::span row = std::span(table_).subspan(begin, width_);
      const float inverse = math::inverse_norm(static_cast<float>(dot<float>(row, row)));
      for (float& value : row) value *= inverse;
    }
  }

 private:
  float contribution(std::int32_t source, float x, std::int32_t item, double norm) const override {
    return static_cast<float>(x * dot<float>(vector(source), vector(item)) / norm);
  }
  /// Returns the norm of x A / |x|, which no score exceeds.
  double scale(const SparseRow& history, double norm) const override {
    std::vector<double> sum(width_, 0.0);
    for (std::size_t n = 0; n < history.columns.size(); ++n) {
      const double x = history.value(n);
      std::ranges::transform(sum, vector(history.columns[n]), sum.begin(),
                             [x](double total, float element) { return total + x * element; });
    }
    return std::sqrt(dot<double>(sum, sum)) / norm;
  }

  std::span<const float> vector(std::int32_t item) const {
    return std::span(table_).subspan(item * width_, width_);
  }
  template <class T>
  static double dot(std::span<const T> a, std::span<const T> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                              [](T x, T y) { return static_cast<double>(x) * y; });
  }

  std::vector<float> table_;  // A (items, width)
  std::int64_t width_;
};

/// The output layer of a network in host memory.
struct OutputTable {
  std::vector<float> weights;  // (width, items)
  std::vector<float> bias;     // (items)
};

/// Contributions in a network: differences of scores with and without one item, where the values of the other
/// items stay as they are. The layers up to the output layer are those of the model, on its device; of the
/// output layer only the listed items are computed.
class NetworkReasons final : public Reasons {
 public:
  NetworkReasons(models::TrainableModel& model, OutputTable output, const Context& context)
      : model_(model),
        output_(std::move(output)),
        context_(context),
        threads_(models::item_model_threads(context)) {}

  Contributions contributions(CsrView seen, CsrView last, CsrView features,
                              std::span<const std::int32_t> listed, std::int64_t k) override {
    std::vector<Row> rows;
    for (std::int64_t user = 0; user < seen.rows(); ++user) {
      const std::int64_t size = seen.row_size(user);
      if (size == 0 || listed[user * k] < 0) continue;
      rows.push_back({user, -1});
      for (std::int64_t place = 0; place < size; ++place) {
        const bool leaves_out = last.rows() > 0
                                    ? std::ranges::binary_search(last.row(user), seen.row(user)[place])
                                    : place >= size - Recommender::max_left_out;
        if (leaves_out) rows.push_back({user, place});
      }
    }
    std::vector<float> scores(rows.size() * k, 0.0F);
    for (std::int64_t begin = 0; begin < std::ssize(rows); begin += model_.max_users()) {
      const std::int64_t count = std::min(std::ssize(rows) - begin, model_.max_users());
      score({seen, features, listed, k}, std::span(rows).subspan(begin, count),
            std::span(scores).subspan(begin * k, count * k));
    }
    // Every row is scored by one rank; the sum with zeros is exact.
    if (model_.divides_items()) context_.grid->model_parallel_ranks().all_reduce(std::span<float>(scores));

    Contributions found{no_contributions(seen, k), {}};
    const float* complete = nullptr;  // the scores with all items of the user
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const float* without = &scores[row * k];
      if (rows[row].left_out < 0) {
        complete = without;
        continue;
      }
      for (std::int64_t slot = 0; slot < k; ++slot)
        contributions_of(found.values, seen, k, rows[row].user, slot)[rows[row].left_out] =
            complete[slot] - without[slot];
    }
    return found;
  }

 private:
  /// A user's input without the item at place `left_out` of the user's items; -1: with all.
  struct Row {
    std::int64_t user;
    std::int64_t left_out;
  };
  struct Inputs {
    CsrView seen;
    CsrView features;
    std::span<const std::int32_t> listed;
    std::int64_t k;
  };

  /// Writes the scores of the users' listed items, (rows, k), for the rows of a batch that this rank carries.
  void score(const Inputs& inputs, std::span<const Row> rows, std::span<float> scores) {
    Csr items, features;
    for (const Row& row : rows) {
      const SparseRow all = inputs.seen.sparse_row(row.user);
      const auto kept = [&row](auto elements) {
        std::vector rest(elements.begin(), elements.end());
        if (row.left_out >= 0 && !rest.empty()) rest.erase(rest.begin() + row.left_out);
        return rest;
      };
      items.append({kept(all.columns), kept(all.values)});
      features.append(inputs.features.row(row.user));
    }
    const auto loaded = model_.load_users({items.view(), features.view(), {}, 0});
    const std::int64_t count = std::ssize(rows);
    const std::vector<float> hidden = model_.scoring_input(*loaded, {0, count});
    const Range own = model_.own_users(count);
    const std::int64_t items_of_model = model_.items();
    const std::int64_t width = std::ssize(output_.weights) / items_of_model;
    // Rows of one user follow each other, and need the same columns of the table.
    std::vector<std::int64_t> firsts;
    for (std::int64_t row = own.begin; row < own.end; ++row)
      if (row == own.begin || rows[row].user != rows[row - 1].user) firsts.push_back(row);
    const auto score_user = [&](std::int64_t n) {
      const std::int64_t first = firsts[n];
      const std::int64_t end = n + 1 < std::ssize(firsts) ? firsts[n + 1] : own.end;
      std::vector<float> column(width);
      for (std::int64_t slot = 0; slot < inputs.k; ++slot) {
        const std::int32_t item = inputs.listed[rows[first].user * inputs.k + slot];
        if (item < 0) continue;
        for (std::int64_t h = 0; h < width; ++h) column[h] = output_.weights[h * items_of_model + item];
        for (std::int64_t row = first; row < end; ++row) {
          const float* unit = &hidden[(row - own.begin) * width];
          double logit = output_.bias[item];
          for (std::int64_t h = 0; h < width; ++h) logit += static_cast<double>(unit[h]) * column[h];
          scores[row * inputs.k + slot] = model_.score_of(static_cast<float>(logit));
        }
      }
    };
    parallel_for(threads_, {0, std::ssize(firsts)}, score_user, NoProgress{}, 1);
  }

  models::TrainableModel& model_;
  OutputTable output_;
  Context context_;
  int threads_;
};

/// Reads all rows of a tensor below /weights.
std::vector<float> read_weights(const io::CheckpointFile& checkpoint, const device::TensorSpec& tensor) {
  const std::string name = "weights/" + tensor.name;
  const io::CheckpointFile::TensorInfo& info = *checkpoint.find_tensor(name);
  std::vector<float> values(info.rows * info.columns);
  checkpoint.read_rows(name, 0, info.rows, values);
  return values;
}

}  // namespace

ExplainedModel load_explained(checkpoint::CheckpointReader& reader, const io::CheckpointFile& checkpoint,
                              const config::TrainingConfig& options, const models::InputDims& inputs,
                              const Context& context, std::int64_t max_users) {
  const int threads = models::item_model_threads(context);
  if (models::is_solved(options.model.type)) {
    auto model = checkpoint::read_item_model(reader, options.model.type, inputs.items, context);
    return {models::make_item_scorer(model, inputs.items, context),
            std::make_unique<ItemReasons>(model, threads)};
  }
  auto scorer = checkpoint::load_scorer(reader, options, inputs, context, max_users);
  auto& model = dynamic_cast<models::TrainableModel&>(*scorer);
  const std::vector<device::TensorSpec> tensors = model.tensors();
  std::unique_ptr<Reasons> reasons;
  if (models::facts_of(options.model.type).item_vectors) {
    reasons = std::make_unique<ElsaReasons>(read_weights(checkpoint, tensors.front()),
                                            options.model.elsa.factors, threads);
  } else {
    const device::Layer layer = model.output_layer();
    OutputTable output{read_weights(checkpoint, tensors.at(layer.weight)),
                       read_weights(checkpoint, tensors.at(layer.bias))};
    reasons = std::make_unique<NetworkReasons>(model, std::move(output), context);
  }
  return {std::move(scorer), std::move(reasons)};
}

void require_sum(std::span<const float> contributions, std::int32_t item, float score, double scale) {
  double sum = 0.0, absolute = 0.0;
  for (const float value : contributions) {
    sum += value;
    absolute += std::abs(value);
  }
  if (std::abs(sum - score) <= 1e-5 * std::max(absolute, scale)) return;
  throw std::logic_error(format(
      "the contributions of a user's items to the score of item {} (from 0) add up to {:g}, but the score is {:g}",
      item, sum, score));
}

void select_reasons(std::span<const std::int32_t> history, std::span<const float> contributions,
                    std::span<std::int32_t> because, std::span<float> largest) {
  std::vector<std::pair<float, std::int32_t>> found;
  for (std::size_t i = 0; i < history.size(); ++i)
    if (!std::isnan(contributions[i])) found.emplace_back(contributions[i], history[i]);
  const std::size_t count = std::min(found.size(), because.size());
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(found, end, [](const auto& a, const auto& b) {
    return math::ranks_ahead(a.first, a.second, b.first, b.second);
  });
  std::ranges::fill(because, -1);
  std::ranges::fill(largest, nan);
  for (std::size_t i = 0; i < count; ++i) std::tie(largest[i], because[i]) = found[i];
}

}  // namespace vaecf::run
