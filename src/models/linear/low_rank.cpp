#include "models/linear/low_rank.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/base/parallel_for.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "models/linear/sparse_weights.hpp"

namespace vaecf::models {
namespace {

/// Rows of factors of one thread, at most LowRankTerm::max_at_once.
float* factor_rows(std::int64_t stride) {
  thread_local AlignedArray<float> rows;
  rows.resize(LowRankTerm::max_at_once * stride);
  std::fill_n(rows.data(), rows.size(), 0.0F);
  return rows.data();
}

/// Weights between items with the term. Stored dense weights contain it; others are beside its factors.
class LowRankModel final : public ItemModel {
 public:
  LowRankModel(std::shared_ptr<const ItemModel> base, LowRankTerm term, std::int64_t items, int threads)
      : base_(std::move(base)), term_(std::move(term)), items_(items), threads_(threads) {}

  void score(const SparseRow& history, std::span<float> scores) const override {
    score_all({&history, 1}, scores);
  }
  void score_all(std::span<const SparseRow> users, std::span<float> scores) const override {
    base_->score_all(users, scores);
    term_.add_scores(users, scores);
  }
  float weight(std::int32_t source, std::int32_t target) const override {
    return base_->weight(source, target) + term_.weight(source, target);
  }
  void read_row(std::int32_t source, std::span<float> row) const override {
    base_->read_row(source, row);
    // The term relates all items with users.
    for (std::size_t j = 0; j < row.size(); ++j)
      if (term_.target()[j] != 0.0F && row[j] == -std::numeric_limits<float>::infinity()) row[j] = 0.0F;
    term_.add_rows({source, source + 1}, row, 1);
  }
  StoredWeights stored() const override {
    StoredWeights stored = base_->stored();
    if (!base_->is_dense()) {
      const LowRankBasis& basis = term_.basis();
      const auto read_factors = [&basis](std::int64_t begin, std::int64_t end, std::span<float> out) {
        for (std::int64_t i = begin; i < end; ++i)
          std::copy_n(basis.row(i).data, basis.factors, out.data() + (i - begin) * basis.factors);
      };
      stored.tensors.push_back({factors_name, items_, basis.factors, false, read_factors});
      stored.arrays.push_back({factor_source_name, term_.source()});
      stored.arrays.push_back({factor_target_name, term_.target()});
      return stored;
    }
    io::TensorSource& matrix = stored.tensors.at(0);
    matrix.read_rows = [this, read_base = std::move(matrix.read_rows)](std::int64_t begin, std::int64_t end,
                                                                       std::span<float> out) {
      read_base(begin, end, out);
      term_.add_rows({begin, end}, out, threads_);
    };
    return stored;
  }
  bool is_dense() const override { return base_->is_dense(); }
  std::int64_t users_at_once() const override { return 2 * LowRankTerm::max_at_once; }

 private:
  std::shared_ptr<const ItemModel> base_;
  LowRankTerm term_;
  std::int64_t items_;
  int threads_;
};

}  // namespace

LowRankTerm::LowRankTerm(std::shared_ptr<const LowRankBasis> basis, double weight, double power)
    : basis_(std::move(basis)) {
  set_scales(weight, power);
  add_squares();
}

LowRankTerm::LowRankTerm(const LowRankTerm& other, double weight, double power)
    : basis_(other.basis_), squares_(other.squares_) {
  set_scales(weight, power);
}

void LowRankTerm::set_scales(double weight, double power) {
  for (std::int64_t i = 0; i < basis_->items; ++i) {
    const auto users = static_cast<double>(basis_->users[static_cast<std::size_t>(i)]);
    const double scale = users > 0.0 ? std::pow(users, power) : 0.0;
    source_.push_back(users > 0.0 ? static_cast<float>(1.0 / scale) : 0.0F);
    target_.push_back(static_cast<float>(weight * scale));
  }
}

LowRankTerm::LowRankTerm(std::shared_ptr<const LowRankBasis> basis, std::vector<float> source,
                         std::vector<float> target)
    : basis_(std::move(basis)), source_(std::move(source)), target_(std::move(target)) {
  add_squares();
}

void LowRankTerm::add_squares() {
  for (std::int64_t i = 0; i < basis_->items; ++i) {
    double squares = 0.0;
    for (const float value : std::span(basis_->row(i).data, static_cast<std::size_t>(basis_->factors)))
      squares += static_cast<double>(value) * value;
    squares_.push_back(static_cast<float>(squares));
  }
}

float LowRankTerm::weight(std::int32_t source, std::int32_t target) const {
  if (source == target) return 0.0F;
  const float* const left = basis_->row(source).data;
  const float* const right = basis_->row(target).data;
  double sum = 0.0;
  for (std::int64_t k = 0; k < basis_->factors; ++k) sum += static_cast<double>(left[k]) * right[k];
  return source_[static_cast<std::size_t>(source)] * target_[static_cast<std::size_t>(target)] *
         static_cast<float>(sum);
}

template <class Use>
void LowRankTerm::for_products(const float* left, std::int64_t rows, const Use& use) const {
  constexpr std::int64_t block = LowRankBasis::block;
  alignas(64) std::array<float, max_at_once * block> products;
  for (std::int64_t begin = 0; begin < basis_->items; begin += block) {
    const Range columns{begin, std::min(basis_->items, begin + block)};
    device::multiply_by_rows((rows + 3) / 4 * 4, block, basis_->stride, {left, basis_->stride},
                             basis_->row(begin), {products.data(), block});
    for (std::int64_t row = 0; row < rows; ++row) use(row, columns, products.data() + row * block);
  }
}

template <class Use>
void LowRankTerm::for_products_of(std::span<const SparseRow> users, const Use& use) const {
  const std::int64_t stride = basis_->stride;
  for (std::size_t first = 0; first < users.size(); first += max_at_once) {
    const auto some = users.subspan(first, std::min<std::size_t>(max_at_once, users.size() - first));
    float* const left = factor_rows(stride);
    for (std::size_t u = 0; u < some.size(); ++u)
      device::sum_rows(some[u], source_.data(), basis_->row(0), stride, 1.0F,
                       left + static_cast<std::int64_t>(u) * stride);
    for_products(left, std::ssize(some), [&](std::int64_t row, Range columns, const float* products) {
      use(static_cast<std::int64_t>(first) + row, columns, products);
    });
  }
}

void LowRankTerm::add_scaled(Range columns, const float* products, float* scores) const {
  for (std::int64_t j = columns.begin; j < columns.end; ++j)
    scores[j] += target_[static_cast<std::size_t>(j)] * products[j - columns.begin];
}

void LowRankTerm::add_scores(std::span<const SparseRow> users, std::span<float> scores) const {
  for_products_of(users, [&](std::int64_t row, Range columns, const float* products) {
    add_scaled(columns, products, scores.data() + row * basis_->items);
  });
  subtract_diagonal(users, scores);
}

void LowRankTerm::multiply(std::span<const SparseRow> users, std::span<float> products) const {
  for_products_of(users, [&](std::int64_t row, Range columns, const float* of_columns) {
    std::copy_n(of_columns, columns.size(), products.data() + row * basis_->items + columns.begin);
  });
}

void LowRankTerm::add_scores(std::span<const SparseRow> users, std::span<const float> products,
                             std::span<float> scores) const {
  const std::int64_t items = basis_->items;
  for (std::int64_t row = 0; row < std::ssize(users); ++row)
    add_scaled({0, items}, products.data() + row * items, scores.data() + row * items);
  subtract_diagonal(users, scores);
}

void LowRankTerm::subtract_diagonal(std::span<const SparseRow> users, std::span<float> scores) const {
  for (std::size_t u = 0; u < users.size(); ++u)
    for_elements(users[u], [&](std::int32_t item, float x) {
      const auto i = static_cast<std::size_t>(item);
      scores[u * static_cast<std::size_t>(basis_->items) + i] -= x * source_[i] * target_[i] * squares_[i];
    });
}

void LowRankTerm::add_rows(Range rows, std::span<float> out, int threads) const {
  const std::int64_t items = basis_->items;
  parallel_for(
      threads, {0, (rows.size() + max_at_once - 1) / max_at_once},
      [&](std::int64_t part) {
        const std::int64_t begin = rows.begin + part * max_at_once;
        const std::int64_t count = std::min(max_at_once, rows.end - begin);
        float* const left = factor_rows(basis_->stride);
        std::copy_n(basis_->row(begin).data, count * basis_->stride, left);
        for_products(left, count, [&](std::int64_t row, Range columns, const float* products) {
          const std::int64_t i = begin + row;
          float* const to = out.data() + (i - rows.begin) * items;
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            if (j == i) continue;
            to[j] += source_[static_cast<std::size_t>(i)] * target_[static_cast<std::size_t>(j)] *
                     products[j - columns.begin];
          }
        });
      },
      NoProgress{}, 1);
}

void LowRankTerm::read_columns(std::span<const std::int32_t> targets, std::span<float> out) const {
  float* const left = factor_rows(basis_->stride);
  for (std::size_t n = 0; n < targets.size(); ++n)
    std::copy_n(basis_->row(targets[n]).data, basis_->stride,
                left + static_cast<std::int64_t>(n) * basis_->stride);
  for_products(left, std::ssize(targets), [&](std::int64_t n, Range sources, const float* products) {
    const auto j = static_cast<std::size_t>(targets[static_cast<std::size_t>(n)]);
    float* const to = out.data() + n * basis_->items;
    for (std::int64_t i = sources.begin; i < sources.end; ++i)
      to[i] = i == static_cast<std::int64_t>(j)
                  ? 0.0F
                  : source_[static_cast<std::size_t>(i)] * target_[j] * products[i - sources.begin];
  });
}

std::shared_ptr<const ItemModel> add_low_rank(std::shared_ptr<const ItemModel> base, LowRankTerm term,
                                              std::int64_t items, int threads) {
  return std::make_shared<LowRankModel>(std::move(base), std::move(term), items, threads);
}

std::string low_rank_title(const io::Attributes& attributes) {
  const auto factors = attributes.find("low_rank_factors");
  if (factors == attributes.end() || std::get<std::int64_t>(factors->second) == 0) return "";
  std::string title = format(" low-rank {} weight {:g}", std::get<std::int64_t>(factors->second),
                             std::get<double>(attributes.at("low_rank_weight")));
  const double power = std::get<double>(attributes.at("low_rank_power"));
  return power == 0.0 ? title : title + format(" power {:g}", power);
}

bool has_low_rank(const io::CheckpointFile& file) {
  return file.find_tensor(factors_name) != nullptr;
}

LowRankTerm read_low_rank(const io::CheckpointFile& file, std::int64_t items) {
  const auto* const factors = file.find_tensor(factors_name);
  std::vector<float> source = file.read_array<float>(factor_source_name);
  std::vector<float> target = file.read_array<float>(factor_target_name);
  if (factors->rows != items || std::ssize(source) != items || std::ssize(target) != items)
    throw InputError(
        "/weights/items/factors of the checkpoint is not valid for this dataset; solve the model again");
  auto basis = std::make_shared<LowRankBasis>(items, factors->columns);
  file.for_each_row(*factors, [&](std::int64_t i, std::span<float> row) {
    std::ranges::copy(row, basis->values.data() + i * basis->stride);
  });
  return {std::move(basis), std::move(source), std::move(target)};
}

std::shared_ptr<const ItemModel> share_low_rank(std::shared_ptr<const ItemModel> sparse,
                                                const LowRankTerm* term, std::int64_t items,
                                                const Context& context) {
  comm::Communicator& ranks = context.communicator;
  std::int64_t factors = term == nullptr ? -1 : term->basis().factors;
  ranks.broadcast(std::span(&factors, 1), 0);
  if (factors < 0) return sparse;
  auto basis = std::make_shared<LowRankBasis>(items, factors);
  std::vector<float> source(static_cast<std::size_t>(items)), target(source);
  if (term != nullptr) {
    std::copy_n(term->basis().values.data(), basis->values.size(), basis->values.data());
    std::ranges::copy(term->source(), source.begin());
    std::ranges::copy(term->target(), target.begin());
  }
  ranks.broadcast(view(basis->values, {0, basis->values.size()}), 0);
  ranks.broadcast(std::span(source), 0);
  ranks.broadcast(std::span(target), 0);
  return add_low_rank(std::move(sparse), {std::move(basis), std::move(source), std::move(target)}, items,
                      item_model_threads(context));
}

}  // namespace vaecf::models
