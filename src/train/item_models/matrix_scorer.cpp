#include "train/item_models/matrix_scorer.hpp"

#include <vaecf/model/trainable_model.hpp>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace vaecf::train {
namespace {

/// Scores x B of users x on a device, for a dense matrix B of weights between items. Users are scored in
/// parts, always the same ones.
class MatrixScorer final : public model::Scorer {
 public:
  /// `device` must outlive this object.
  MatrixScorer(device::Device& device, std::int64_t item_count, std::unique_ptr<device::ItemMatrix> matrix)
      : device_(device), items_(item_count), matrix_(std::move(matrix)) {}

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return 0; }
  std::int64_t max_users() const override { return std::numeric_limits<std::int64_t>::max(); }

  std::unique_ptr<model::LoadedUsers> load_users(const model::UserData& users) override {
    return std::make_unique<Users>(device_, users, items_, 0, matrix_->max_users(), device::one_slice());
  }

  std::vector<double> evaluate(model::LoadedUsers& users, model::History history,
                               std::span<const math::Metric> metrics,
                               const std::function<void(std::int64_t users)>& progressed) override {
    auto& loaded = static_cast<Users&>(users);
    device::MetricValues& values = loaded.metric_values(device_, metrics.size());
    for_each_part(loaded, {0, loaded.items->rows()}, history, false, [&](Range rows) {
      matrix_->compute_metrics(*loaded.items_batch, *loaded.targets, rows, metrics, values);
      progressed(rows.end);
    });
    return device_.read_metrics(values);
  }

  void top_k(model::LoadedUsers& users, Range rows, model::History history, bool keep_seen, int k,
             std::span<std::int32_t> best, std::span<float> scores) override {
    auto& loaded = static_cast<Users&>(users);
    for_each_part(loaded, rows, history, keep_seen, [&](Range part) {
      const auto first = static_cast<std::size_t>((part.begin - rows.begin) * k);
      const auto size = static_cast<std::size_t>(part.size() * k);
      matrix_->top_k(keep_seen ? *loaded.empty_batch : *loaded.items_batch, k, best.subspan(first, size),
                     scores.subspan(first, size));
    });
  }

  void exclude_items(std::span<const std::uint8_t> allowed_items) override {
    for (std::size_t i = 0; i < allowed_items.size(); ++i)
      if (allowed_items[i] == 0) excluded_.push_back(static_cast<std::int32_t>(i));
    matrix_->exclude_items(excluded_);
  }

 private:
  using Users = model::DeviceUsers;

  /// Computes the scores of users `rows` and calls use(part) for each part of them, whose items are in
  /// items_batch; with `keep_seen`, empty_batch has as many users.
  template <class Use>
  void for_each_part(Users& users, Range rows, model::History history, bool keep_seen, const Use& use) {
    for (std::int64_t begin = rows.begin; begin < rows.end; begin += matrix_->max_users()) {
      const Range part{begin, std::min(rows.end, begin + matrix_->max_users())};
      if (keep_seen) users.gather_empty(device_, part.size());
      users.gather_items(device_, part);
      const std::int64_t entries =
          history == model::History::none ? 0 : users.items->entries_of(users.numbers);
      matrix_->score(*users.items_batch, entries);
      use(part);
    }
  }

  device::Device& device_;
  std::int64_t items_;
  std::unique_ptr<device::ItemMatrix> matrix_;
  std::vector<std::int32_t> excluded_;
};

}  // namespace

std::unique_ptr<model::Scorer> make_matrix_scorer(
    device::Device& device, std::int64_t items,
    const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows) {
  auto matrix = device.make_item_matrix(items, read_rows);
  if (!matrix) return nullptr;
  return std::make_unique<MatrixScorer>(device, items, std::move(matrix));
}

}  // namespace vaecf::train
