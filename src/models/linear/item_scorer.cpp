#include "models/linear/item_scorer.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/base/parallel_for.hpp>

#include <algorithm>
#include <cmath>

#include "models/device_users.hpp"

namespace vaecf::models {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t block_scores = std::int64_t{4} << 20;  // of a thread's users, at most

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

  std::vector<std::int32_t> rank_targets(LoadedUsers& users, History history,
                                         const std::function<void(std::int64_t users)>& progressed) override {
    auto& loaded = static_cast<Users&>(users);
    device::TargetRanks& ranks = loaded.target_ranks(device_);
    for_each_part(loaded, {0, loaded.items->rows()}, history, false, [&](Range rows) {
      matrix_->rank_targets(*loaded.items_batch, *loaded.targets, rows, ranks);
      progressed(rows.end);
    });
    return device_.read_ranks(ranks);
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
  void similarities(std::span<const std::int32_t> items, std::span<float> out) const override {
    for (std::size_t n = 0; n < items.size(); ++n)
      matrix_->read_row(items[n], out.subspan(n * items_, items_));
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

void ItemModel::read_row(std::int32_t source, std::span<float> row) const {
  const StoredWeights weights = stored();
  if (is_dense()) return weights.tensors.front().read_rows(source, source + 1, row);
  std::ranges::fill(row, -infinity);
  if (weights.arrays.empty()) return;
  const auto indptr = std::get<std::span<const std::int64_t>>(weights.arrays[0].values);
  const auto indices = std::get<std::span<const std::int32_t>>(weights.arrays[1].values);
  const auto data = std::get<std::span<const float>>(weights.arrays[2].values);
  for (std::int64_t k = indptr[source]; k < indptr[source + 1]; ++k) row[indices[k]] = data[k];
}

int item_model_threads(const Context& context) {
  const device::DeviceFacts device = context.device.facts();
  if (device.kind == device::DeviceKind::cpu) return std::max(1, device.threads);
  return std::max(
      1, cores_within(cpu_limit(), static_cast<int>(process_cores())) / context.communicator.local_size());
}

std::unique_ptr<Scorer> make_item_scorer(std::shared_ptr<const ItemModel> model, std::int64_t items,
                                         const Context& context) {
  if (model->is_dense() && model->variants() == 1) {
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

template <class Use>
void ItemScorer::for_each_user(const UserData& users, Range rows, History history, bool keep_seen,
                               const Use& use) const {
  const std::int64_t of_thread = (rows.size() + threads_ - 1) / threads_;
  const std::int64_t block =
      std::max<std::int64_t>(1, std::min({model_->users_at_once(), of_thread, block_scores / items_}));
  const std::int64_t blocks = (rows.size() + block - 1) / block;
  std::vector<std::vector<float>> of_threads(threads_);
  const auto work = [&](int thread, std::int64_t number) {
    const std::int64_t begin = rows.begin + number * block;
    const Range part{begin, std::min(rows.end, begin + block)};
    std::vector<SparseRow> histories;
    for (std::int64_t row = part.begin; row < part.end; ++row)
      histories.push_back(history == History::none ? SparseRow({}, {}) : users.items.sparse_row(row));
    of_threads[thread].resize(block * items_);
    const std::span<float> scores = std::span(of_threads[thread]).first(part.size() * items_);
    model_->score_variants(histories, scores, [&](std::int64_t variant) {
      for (std::int64_t row = part.begin; row < part.end; ++row) {
        const std::span<float> own = scores.subspan((row - part.begin) * items_, items_);
        // Weights of a damaged checkpoint may overflow; a sort requires comparable scores.
        std::ranges::replace_if(
            own, [](float value) { return std::isnan(value); }, -infinity);
        for (const std::int32_t item : excluded_) own[static_cast<std::size_t>(item)] = -infinity;
        if (!keep_seen)
          for (const std::int32_t item : users.items.row(row))
            own[static_cast<std::size_t>(item)] = -infinity;
        use(row, variant, own);
      }
    });
  };
  parallel_for(threads_, {0, blocks}, work, NoProgress(), block == 1 ? 16 : 1);
}

std::vector<std::int32_t> ItemScorer::rank_targets(
    LoadedUsers& loaded, History history, const std::function<void(std::int64_t users)>& progressed) {
  constexpr std::int64_t block = 1024;
  const UserData& users = static_cast<ItemUsers&>(loaded).users;
  const std::int64_t targets = users.targets.entries();
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(variants() * targets));
  for (std::int64_t begin = 0; begin < users.targets.rows(); begin += block) {
    const Range rows{begin, std::min(users.targets.rows(), begin + block)};
    const auto rank = [&](std::int64_t row, std::int64_t variant, std::span<const float> scores) {
      const std::vector<std::int32_t> of_user = math::ranks_of(users.targets.row(row), scores);
      const std::int64_t first = users.targets.offsets[row] - users.targets.offsets[0];
      std::ranges::copy(of_user, ranks.begin() + variant * targets + first);
    };
    for_each_user(users, rows, history, false, rank);
    progressed(rows.end);
  }
  return ranks;
}

void ItemScorer::top_k(LoadedUsers& loaded, Range rows, History history, bool keep_seen, int k,
                       std::span<std::int32_t> items, std::span<float> best_scores) {
  const UserData& users = static_cast<ItemUsers&>(loaded).users;
  const auto width = static_cast<std::size_t>(k);
  std::ranges::fill(items, -1);
  std::ranges::fill(best_scores, -infinity);
  const auto list = [&](std::int64_t row, std::int64_t variant, std::span<const float> scores) {
    const std::vector<std::int32_t> best = math::top_k(scores, k);
    const std::size_t first = static_cast<std::size_t>(variant * rows.size() + row - rows.begin) * width;
    for (std::size_t position = 0; position < best.size(); ++position) {
      items[first + position] = best[position];
      best_scores[first + position] = scores[static_cast<std::size_t>(best[position])];
    }
  };
  for_each_user(users, rows, history, keep_seen, list);
}

bool ItemScorer::for_each_ranked(LoadedUsers& loaded, Range rows, bool keep_seen, std::int64_t first,
                                 const Take& take) {
  const UserData& users = static_cast<ItemUsers&>(loaded).users;
  const auto take_ranked = [&](std::int64_t row, std::int64_t /*variant*/, std::span<const float> scores) {
    std::size_t done = 0;
    for (std::int64_t length = first;; length *= 8) {
      const std::vector<std::int32_t> best = math::top_k(scores, length);
      for (; done < best.size(); ++done)
        if (!take(row, best[done], scores[static_cast<std::size_t>(best[done])])) return;
      if (std::ssize(best) < length) return;
    }
  };
  for_each_user(users, rows, History::items, keep_seen, take_ranked);
  return true;
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

}  // namespace vaecf::models
