#include <vaecf/base/host.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace vaecf::models {
namespace {

/// Sorts the columns of a row, with their weights.
void sort_row(std::span<std::int32_t> indices, std::span<float> data) {
  std::vector<std::pair<std::int32_t, float>> row;
  row.reserve(indices.size());
  for (std::size_t k = 0; k < indices.size(); ++k) row.emplace_back(indices[k], data[k]);
  std::ranges::sort(row);
  for (std::size_t k = 0; k < row.size(); ++k) std::tie(indices[k], data[k]) = row[k];
}

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<std::int32_t> excluded_of(std::span<const std::uint8_t> allowed_items) {
  std::vector<std::int32_t> excluded;
  for (std::size_t i = 0; i < allowed_items.size(); ++i)
    if (allowed_items[i] == 0) excluded.push_back(static_cast<std::int32_t>(i));
  return excluded;
}

struct ItemUsers : LoadedUsers {
  explicit ItemUsers(const UserData& data) : users(data) {}
  UserData users;
};

/// Scores x B of users x on a device, for a dense matrix B of weights between items. Users are scored in
/// parts, always the same ones.
class MatrixScorer final : public Scorer {
 public:
  /// `device` must outlive this object.
  MatrixScorer(device::Device& device, std::int64_t item_count, std::unique_ptr<device::ItemMatrix> matrix)
      : device_(device), items_(item_count), matrix_(std::move(matrix)) {}

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return 0; }
  std::int64_t max_users() const override { return std::numeric_limits<std::int64_t>::max(); }

  std::unique_ptr<LoadedUsers> load_users(const UserData& users) override {
    return std::make_unique<Users>(device_, users, items_, 0, matrix_->max_users(), device::single_rank());
  }

  std::vector<double> evaluate(LoadedUsers& users, History history, std::span<const math::Metric> metrics,
                               const std::function<void(std::int64_t users)>& progressed) override {
    auto& loaded = static_cast<Users&>(users);
    device::MetricValues& values = loaded.metric_values(device_, metrics.size());
    for_each_part(loaded, {0, loaded.items->rows()}, history, false, [&](Range rows) {
      matrix_->compute_metrics(*loaded.items_batch, *loaded.targets, rows, metrics, values);
      progressed(rows.end);
    });
    return device_.read_metrics(values);
  }

  void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> best, std::span<float> scores) override {
    auto& loaded = static_cast<Users&>(users);
    for_each_part(loaded, rows, history, keep_seen, [&](Range part) {
      const auto first = static_cast<std::size_t>((part.begin - rows.begin) * k);
      const auto size = static_cast<std::size_t>(part.size() * k);
      matrix_->top_k(keep_seen ? *loaded.empty_batch : *loaded.items_batch, k, best.subspan(first, size),
                     scores.subspan(first, size));
    });
  }

  void restrict_to(std::span<const std::uint8_t> allowed_items) override {
    matrix_->exclude_items(excluded_of(allowed_items));
  }

 private:
  using Users = DeviceUsers;

  /// Computes the scores of users `rows` and calls use(part) for each part of them, whose items are in
  /// items_batch; with `keep_seen`, empty_batch has as many users.
  template <class Use>
  void for_each_part(Users& users, Range rows, History history, bool keep_seen, const Use& use) {
    for (std::int64_t begin = rows.begin; begin < rows.end; begin += matrix_->max_users()) {
      const Range part{begin, std::min(rows.end, begin + matrix_->max_users())};
      if (keep_seen) users.gather_empty(device_, part.size());
      users.gather_items(device_, part);
      const std::int64_t entries = history == History::none ? 0 : users.items->entries_of(users.numbers);
      matrix_->score(*users.items_batch, entries);
      use(part);
    }
  }

  device::Device& device_;
  std::int64_t items_;
  std::unique_ptr<device::ItemMatrix> matrix_;
};

}  // namespace

void SparseWeights::score(const SparseRow& history, std::span<float> scores) const {
  std::ranges::fill(scores, 0.0F);
  for_elements(history, [&](std::int32_t item, float x) {
    const auto i = static_cast<std::size_t>(item);
    for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
      scores[static_cast<std::size_t>(indices[k])] += x * data[k];
  });
}

float SparseWeights::weight(std::int32_t source, std::int32_t target) const {
  const auto begin = indices.begin() + indptr[static_cast<std::size_t>(source)];
  const auto end = indices.begin() + indptr[static_cast<std::size_t>(source) + 1];
  const auto found = std::lower_bound(begin, end, target);
  return found == end || *found != target ? 0.0F : data[static_cast<std::size_t>(found - indices.begin())];
}

SparseWeights gather_weights(std::vector<NeighborList> own, std::span<const std::int32_t> order,
                             ListDirection direction, comm::Communicator& ranks, int threads) {
  const auto items = static_cast<std::int64_t>(order.size());
  const bool from_item = direction == ListDirection::targets_of_source;
  const auto item_of = [&](std::size_t list, int rank) {
    return order[list * static_cast<std::size_t>(ranks.size()) + static_cast<std::size_t>(rank)];
  };
  SparseWeights all;
  all.indptr.assign(order.size() + 1, 0);
  for (std::size_t s = 0; s < own.size(); ++s) {
    for (const std::int32_t neighbor : own[s].neighbors)
      ++all.indptr[static_cast<std::size_t>(from_item ? item_of(s, ranks.rank()) : neighbor) + 1];
  }
  ranks.all_reduce(std::span(all.indptr));
  for (std::size_t i = 1; i <= order.size(); ++i) all.indptr[i] += all.indptr[i - 1];
  all.indices.resize(static_cast<std::size_t>(all.indptr.back()));
  all.data.resize(all.indices.size());
  std::vector<std::int64_t> next(all.indptr.begin(), all.indptr.end() - 1);
  const auto place = [&](std::int32_t item, std::int32_t neighbor, float weight) {
    const std::int32_t source = from_item ? item : neighbor;
    const auto k = static_cast<std::size_t>(next[static_cast<std::size_t>(source)]++);
    all.indices[k] = from_item ? neighbor : item;
    all.data[k] = weight;
  };
  // Lists are sent one after the other in blocks of about this size, so that no copy of all is needed.
  constexpr std::size_t block_entries = std::size_t{1} << 22;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto lists = static_cast<std::size_t>(list_count(items, rank, ranks.size()));
    std::vector<std::int64_t> sizes(lists, 0);
    if (rank == ranks.rank())
      std::ranges::transform(own, sizes.begin(),
                             [](const NeighborList& list) { return std::ssize(list.weights); });
    ranks.broadcast(std::span(sizes), rank);
    NeighborList block;
    for (std::size_t begin = 0, end = 0; begin < lists; begin = end) {
      std::size_t entries = 0;
      for (; end < lists && (end == begin || entries < block_entries); ++end)
        entries += static_cast<std::size_t>(sizes[end]);
      block = {};
      for (std::size_t s = begin; s < end && rank == ranks.rank(); ++s) {
        block.neighbors.insert(block.neighbors.end(), own[s].neighbors.begin(), own[s].neighbors.end());
        block.weights.insert(block.weights.end(), own[s].weights.begin(), own[s].weights.end());
        own[s] = {};
      }
      block.neighbors.resize(entries);
      block.weights.resize(entries);
      ranks.broadcast(std::span(block.neighbors), rank);
      ranks.broadcast(std::span(block.weights), rank);
      ranks.activity().note_progress();
      for (std::size_t s = begin, n = 0; s < end; ++s) {
        const std::size_t next_list = n + static_cast<std::size_t>(sizes[s]);
        for (; n < next_list; ++n) place(item_of(s, rank), block.neighbors[n], block.weights[n]);
      }
    }
  }
  parallel_for(threads, {0, items}, [&](std::int64_t i) {
    const auto begin = static_cast<std::size_t>(all.indptr[static_cast<std::size_t>(i)]);
    const auto size = static_cast<std::size_t>(all.indptr[static_cast<std::size_t>(i) + 1]) - begin;
    sort_row(std::span(all.indices).subspan(begin, size), std::span(all.data).subspan(begin, size));
  });
  return all;
}

int item_model_threads(const Context& context) {
  const device::DeviceFacts device = context.device.facts();
  if (device.kind == device::DeviceKind::cpu) return std::max(1, device.threads);
  return std::max(
      1, cores_within(cpu_limit(), static_cast<int>(process_cores())) / context.communicator.local_size());
}

std::unique_ptr<Scorer> make_item_scorer(std::shared_ptr<const ItemModel> model, std::int64_t items,
                                         const Context& context) {
  if (model->is_dense()) {
    const StoredWeights stored = model->stored();
    if (auto on_device = make_matrix_scorer(context.device, items, stored.tensors.front().read_rows))
      return on_device;
    if (context.device.facts().kind == device::DeviceKind::cuda)
      context.log.info(
          "the scores of {} items are computed on the CPU: their matrix does not fit into the memory of the GPU",
          items);
  }
  return std::make_unique<ItemScorer>(std::move(model), items, item_model_threads(context));
}

std::unique_ptr<LoadedUsers> ItemScorer::load_users(const UserData& users) {
  return std::make_unique<ItemUsers>(users);
}

void ItemScorer::score(const SparseRow& seen, History history, bool keep_seen,
                       std::span<float> scores) const {
  model_->score(history == History::none ? SparseRow({}, {}) : seen, scores);
  // Weights of a damaged checkpoint may overflow; a sort requires comparable scores.
  std::ranges::replace_if(
      scores, [](float value) { return std::isnan(value); }, -infinity);
  for (const std::int32_t item : excluded_) scores[static_cast<std::size_t>(item)] = -infinity;
  if (keep_seen) return;
  for (const std::int32_t item : seen.columns) scores[static_cast<std::size_t>(item)] = -infinity;
}

std::vector<double> ItemScorer::evaluate(LoadedUsers& loaded, History history,
                                         std::span<const math::Metric> metrics,
                                         const std::function<void(std::int64_t users)>& progressed) {
  constexpr std::int64_t block = 1024;
  const UserData& users = static_cast<ItemUsers&>(loaded).users;
  const auto count = static_cast<std::size_t>(users.targets.rows());
  std::vector<double> values(metrics.size() * count);
  for (std::int64_t begin = 0; begin < users.targets.rows(); begin += block) {
    const Range rows{begin, std::min(users.targets.rows(), begin + block)};
    parallel_for(threads_, rows, [&](std::int64_t row) {
      if (users.targets.row_size(row) == 0) return;
      std::vector<float> scores(static_cast<std::size_t>(items_));
      score(users.items.sparse_row(row), history, false, scores);
      const std::vector<std::int32_t> ranks = math::ranks_of(users.targets.row(row), scores);
      for (std::size_t m = 0; m < metrics.size(); ++m)
        values[m * count + static_cast<std::size_t>(row)] = math::metric_of_user(metrics[m], ranks, items_);
    });
    progressed(rows.end);
  }
  return values;
}

void ItemScorer::top_k(LoadedUsers& loaded, Range rows, History history, bool keep_seen, int k,
                       std::span<std::int32_t> items, std::span<float> best_scores) {
  const UserData& users = static_cast<ItemUsers&>(loaded).users;
  const auto width = static_cast<std::size_t>(k);
  std::ranges::fill(items, -1);
  std::ranges::fill(best_scores, -infinity);
  parallel_for(threads_, rows, [&](std::int64_t row) {
    std::vector<float> scores(static_cast<std::size_t>(items_));
    score(users.items.sparse_row(row), history, keep_seen, scores);
    const std::vector<std::int32_t> best = math::top_k(scores, k);
    const std::size_t first = static_cast<std::size_t>(row - rows.begin) * width;
    for (std::size_t position = 0; position < best.size(); ++position) {
      items[first + position] = best[position];
      best_scores[first + position] = scores[static_cast<std::size_t>(best[position])];
    }
  });
}

void ItemScorer::restrict_to(std::span<const std::uint8_t> allowed_items) {
  excluded_ = excluded_of(allowed_items);
}

std::unique_ptr<Scorer> make_matrix_scorer(
    device::Device& device, std::int64_t items,
    const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows) {
  auto matrix = device.make_item_matrix(items, read_rows);
  if (!matrix) return nullptr;
  return std::make_unique<MatrixScorer>(device, items, std::move(matrix));
}

TrainUserCounts count_train_users(const Context& context, const io::DatasetFile& dataset) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.items()) + 1, 0);
  const std::int64_t rows = dataset.rows("train");
  const std::int64_t rank = context.communicator.rank();
  const std::int64_t ranks = context.communicator.size();
  const Range share{rows * rank / ranks, rows * (rank + 1) / ranks};
  constexpr std::int64_t block_rows = 1 << 14;
  for (std::int64_t begin = share.begin; begin < share.end; begin += block_rows) {
    const Csr block = dataset.read_rows("train", {begin, std::min(share.end, begin + block_rows)});
    for (const std::int32_t item : block.columns) ++counts[static_cast<std::size_t>(item)];
    for (std::int64_t row = 0; row < block.rows(); ++row) counts.back() += block.view().row_size(row) > 0;
    context.communicator.activity().note_progress();
  }
  context.communicator.all_reduce(std::span<std::int64_t>(counts));
  const std::int64_t users = counts.back();
  counts.pop_back();
  return {std::move(counts), users};
}

Popularity::Popularity(const Context& context, const io::DatasetFile& dataset)
    : Popularity(count_train_users(context, dataset)) {}

Popularity::Popularity(TrainUserCounts counted)
    : Popularity(std::move(counted.of_item), counted.with_items) {}

Popularity::Popularity(std::vector<std::int64_t> counts, std::int64_t users)
    : counts_(std::move(counts)),
      users_(static_cast<double>(users)),
      order_(counts_.size()),
      position_(counts_.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int32_t a, std::int32_t b) { return counts_[a] > counts_[b]; });
  for (std::size_t p = 0; p < order_.size(); ++p) position_[order_[p]] = static_cast<std::int32_t>(p);
  const std::int64_t all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  for (std::int64_t sum = 0; 5 * sum < 4 * all; ++head_) sum += counts_[order_[head_]];
}

void Popularity::score(const SparseRow&, std::span<float> scores) const {
  std::ranges::transform(position_, scores.begin(),
                         [](std::int32_t position) { return -static_cast<float>(position); });
}

double Popularity::of_list(const math::Metric& metric, std::span<const std::int32_t> list) const {
  list = list.first(std::min(list.size(), static_cast<std::size_t>(metric.k)));
  double sum = 0.0;
  std::int64_t items = 0;
  for (const std::int32_t item : list) {
    if (item < 0) continue;
    ++items;
    const auto count = static_cast<double>(counts_[item]);
    if (metric.kind == math::Metric::popularity) sum += count;
    if (metric.kind == math::Metric::tail) sum += position_[item] >= head_ ? 1.0 : 0.0;
    if (metric.kind == math::Metric::novelty) sum += std::log2(users_ / std::max(count, 1.0));
  }
  return items == 0 ? 0.0 : sum / static_cast<double>(items);
}

}  // namespace vaecf::models
