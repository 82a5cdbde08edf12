#include <vaecf/model/network.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

// Scoring: no dropout, z = mu.
namespace vaecf::model {
namespace {

/// Users on the backend that the network computes on, and the batches that are gathered from them.
struct NetworkUsers : HeldUsers {
  NetworkUsers(backend::Backend& backend, const UserData& users, std::int64_t item_count,
               std::int64_t feature_count, std::int64_t max_users)
      : no_items(static_cast<std::size_t>(max_users) + 1, 0),
        items(backend.hold_rows(users.items, users.first_user, item_count)),
        features(feature_count > 0 ? backend.hold_rows(users.features, users.first_user, feature_count)
                                   : nullptr),
        targets(backend.hold_rows(users.targets, users.first_user, item_count)),
        empty_rows(backend.hold_rows({no_items, {}}, 0, item_count)),
        items_batch(backend.make_batch()),
        features_batch(backend.make_batch()),
        empty_batch(backend.make_batch()) {}

  std::vector<std::int64_t> no_items;  // offsets of rows without an item
  std::unique_ptr<backend::UserRows> items;
  std::unique_ptr<backend::UserRows> features;  // null if the network has none
  std::unique_ptr<backend::UserRows> targets;
  std::unique_ptr<backend::UserRows> empty_rows;
  std::unique_ptr<backend::Batch> items_batch;
  std::unique_ptr<backend::Batch> features_batch;
  std::unique_ptr<backend::Batch> empty_batch;
  std::vector<std::int64_t> numbers;
};

/// Gathers users `rows` and returns them as the network's input. The batch of their items is gathered in any
/// case.
ModelInput gather(backend::Backend& backend, NetworkUsers& users, Range rows, History history,
                  bool needs_empty) {
  users.numbers.resize(static_cast<std::size_t>(rows.size()));
  if (needs_empty || history == History::none) {
    std::iota(users.numbers.begin(), users.numbers.end(), 0);
    backend.gather_batch(*users.empty_rows, users.numbers, false, *users.empty_batch);
  }
  std::iota(users.numbers.begin(), users.numbers.end(), rows.begin);
  backend.gather_batch(*users.items, users.numbers, false, *users.items_batch);
  if (users.features) backend.gather_batch(*users.features, users.numbers, false, *users.features_batch);
  return {history == History::none ? *users.empty_batch : *users.items_batch,
          users.features ? users.features_batch.get() : nullptr};
}

}  // namespace

std::vector<backend::TensorSpec> Network::tensors() const {
  std::vector<backend::TensorSpec> specs;
  for (const backend::TensorLayout& tensor : layout_.tensors) specs.push_back(tensor.spec);
  return specs;
}

void Network::write_rows(int tensor, Range rows, std::span<const float> values) {
  backend_.import_rows(layout_, tensor, rows, values, parameters_->master());
}

void Network::finish_writing() {
  backend_.weights_changed(*parameters_);
}

std::unique_ptr<HeldUsers> Network::hold(const UserData& users) {
  return std::make_unique<NetworkUsers>(backend_, users, items_, features(), max_rows_);
}

const backend::Activations& Network::hidden_for_scoring(const ModelInput& batch) {
  StepClock clock(backend_, false);
  forward(batch, 1.0F, *scoring_step_, Latent::mean, clock);
  return hidden();
}

std::vector<math::MetricSums> Network::evaluate(HeldUsers& users, History history,
                                                std::span<const math::Metric> metrics,
                                                const std::function<void()>& progressed) {
  constexpr std::int64_t users_at_a_time = 500;
  auto& held = static_cast<NetworkUsers&>(users);
  const auto totals = backend_.make_metric_totals(metrics.size());
  const std::int64_t step = std::min(users_at_a_time, max_rows_);
  for (std::int64_t begin = 0; begin < held.items->rows(); begin += step) {
    const Range rows{begin, std::min(held.items->rows(), begin + step)};
    const ModelInput input = gather(backend_, held, rows, history, false);
    backend_.add_metrics(hidden_for_scoring(input), *held.items_batch, *held.targets, rows, *parameters_,
                         decoder_.back().layer, metrics, *totals);
    progressed();
  }
  return backend_.read_metrics(*totals);
}

void Network::top_k(HeldUsers& users, Range rows, History history, bool keep_seen, int k,
                    std::span<std::int32_t> items, std::span<float> scores) {
  auto& held = static_cast<NetworkUsers&>(users);
  const ModelInput input = gather(backend_, held, rows, history, keep_seen);
  backend_.top_k(hidden_for_scoring(input), keep_seen ? *held.empty_batch : *held.items_batch, *parameters_,
                 decoder_.back().layer, k, items, scores);
}

void Network::exclude_items(std::span<const std::uint8_t> offers) {
  // By their biases, so that no operation needs to know of them.
  const int tensor = decoder_.back().layer.bias;
  std::vector<float> bias(offers.size());
  backend_.export_rows(layout_, tensor, {0, 1}, parameters_->master(), bias);
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (offers[i] == 0) bias[i] = -std::numeric_limits<float>::infinity();
  }
  write_rows(tensor, {0, 1}, bias);
  finish_writing();
}

}  // namespace vaecf::model
