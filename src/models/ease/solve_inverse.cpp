#include <vaecf/base/error.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "models/ease/ease_model.hpp"
#include "models/linear/user_weights.hpp"

namespace vaecf::models {
namespace {

/// Some items of a user: `count` of them from position `begin` on, continued at the first one.
struct CountedItems {
  std::int32_t begin;
  std::int32_t count;
};

/// Returns, for each entry (item, user) of train.items, the user's items in the columns of row `item` that
/// the inverse reads. Each row of G is then counted by loops of known length.
std::vector<CountedItems> counted_items(const Interactions& train, const device::SpdInverse& matrix) {
  constexpr std::int64_t block = device::SpdInverse::block;
  std::vector<std::array<Range, 2>> columns;  // that are read of the rows of each block
  for (std::int64_t item = 0; item < train.items.rows(); item += block)
    columns.push_back(matrix.columns_read(item));
  std::vector<CountedItems> counted(train.items.columns.size());
  std::vector<std::int64_t> next(train.items.offsets.begin(), train.items.offsets.end() - 1);
  for (std::int64_t user = 0; user < train.users.rows(); ++user) {
    const std::span<const std::int32_t> items = train.users.view().row(user);
    std::size_t right_end = 0, left_end = 0;
    std::int64_t last_block = -1;
    CountedItems of_block{0, 0};
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (items[k] / block != last_block) {
        last_block = items[k] / block;
        const auto& [right, left] = columns[static_cast<std::size_t>(last_block)];
        while (right_end < items.size() && items[right_end] < right.end) ++right_end;
        while (left_end < items.size() && items[left_end] < left.end) ++left_end;
        of_block = {static_cast<std::int32_t>(k), static_cast<std::int32_t>(right_end - k + left_end)};
      }
      counted[static_cast<std::size_t>(next[static_cast<std::size_t>(items[k])]++)] = of_block;
    }
  }
  return counted;
}

/// Adds the elements of row `item` of G that the inverse reads to `row` (items), each in ascending order of
/// the users. The diagonal element is left as it is.
void add_gram_row(const Interactions& train, const UserWeights& weights,
                  std::span<const CountedItems> counted, std::int64_t item, std::span<float> row) {
  const float diagonal = row[static_cast<std::size_t>(item)];
  const auto first = static_cast<std::size_t>(train.items.offsets[static_cast<std::size_t>(item)]);
  const std::span<const std::int32_t> users = train.items.view().row(item);
  const std::span<const float> own_values = train.items.view().row_values(item);
  // The rows of users are at random places, so their offsets and then the items are loaded early.
  constexpr std::size_t ahead = 8;
  const CsrView rows = train.users.view();
  for (std::size_t n = 0; n < users.size(); ++n) {
    if (n + 2 * ahead < users.size())
      __builtin_prefetch(&rows.offsets[static_cast<std::size_t>(users[n + 2 * ahead])]);
    if (n + ahead < users.size())
      __builtin_prefetch(rows.row(users[n + ahead]).data() + counted[first + n + ahead].begin);
    const SparseRow items = rows.sparse_row(users[n]);
    const float weight = weights.of_users[static_cast<std::size_t>(users[n])] * value_at(own_values, n);
    const auto add = [&](std::size_t from, std::size_t size) {
      const auto values = items.values.empty() ? items.values : items.values.subspan(from, size);
      for_elements({items.columns.subspan(from, size), values},
                   [&](std::int32_t other, float x) { row[static_cast<std::size_t>(other)] += weight * x; });
    };
    const auto begin = static_cast<std::size_t>(counted[first + n].begin);
    const auto count = static_cast<std::size_t>(counted[first + n].count);
    const std::size_t right = std::min(count, items.columns.size() - begin);
    add(begin, right);
    add(0, count - right);
  }
  row[static_cast<std::size_t>(item)] = diagonal;
}

}  // namespace

std::unique_ptr<EaseModel> solve_inverse(const Interactions& train, const EaseValues& values,
                                         const Context& context, int threads) {
  comm::Communicator& ranks = context.communicator;
  const std::int64_t items = train.items.rows();
  const UserWeights weights = weigh_users(train, values.user_power, values.feature_weight);
  std::optional<Interactions> extended;
  if (values.feature_weight > 0.0) extended = add_feature_rows(train);
  const Interactions& x = extended ? *extended : train;
  const double l2 = values.l2 * weights.mean;
  Inverse inverse{
      items, std::make_unique<device::SpdInverse>(items, ranks.rank(), ranks.size(), threads), {}};
  device::SpdInverse& matrix = *inverse.solved;
  const Range own = matrix.rows_of(ranks.rank());
  parallel_for(threads, own, [&](std::int64_t i) {
    const double gram = weights.of_items[static_cast<std::size_t>(i)];
    matrix.row(i)[static_cast<std::size_t>(i)] =
        static_cast<float>(gram + math::linear_penalty(l2, gram, values.dropout));
  });
  const std::string title = format("{}, {} items", ease_title(values), items);
  const std::int64_t blocks = matrix.stride() / device::SpdInverse::block;
  context.progress.begin(title, blocks, "blocks");
  const auto report = [&](std::int64_t done, std::int64_t) {
    ranks.activity().note_progress();
    context.progress.update(done);
    return !context.any_rank_asked_to_stop();
  };
  std::optional<device::Inversion> outcome = invert_on_gpus(
      context.device, matrix, {x.users.view(), x.items.view(), weights.of_users}, ranks, report);
  if (!outcome) {
    if (context.device.facts().kind == device::DeviceKind::cuda) {
      context.log.info(
          "EASE of {} items is solved on the CPU: its matrix does not fit into the memory of the {}", items,
          ranks.size() == 1 ? "GPU" : "GPUs of all ranks");
    }
    const std::vector<CountedItems> counted = counted_items(x, matrix);
    context.progress.begin("counting the users of pairs of items", own.size(), "items");
    parallel_for(
        threads, own, [&](std::int64_t i) { add_gram_row(x, weights, counted, i, matrix.row(i)); },
        [&](std::int64_t done) {
          ranks.activity().note_progress();
          context.progress.update(done);
        });
    context.progress.begin(title, blocks, "blocks");
    outcome = matrix.invert([&](std::span<float> part, int root) { ranks.broadcast(part, root); }, report);
  }
  context.progress.end();
  if (*outcome == device::Inversion::stopped) return nullptr;
  if (*outcome == device::Inversion::indefinite) throw_indefinite(values.l2);
  if (ranks.size() > 1) inverse.gather(ranks);
  std::vector<math::LinearColumn> columns;
  for (std::int64_t j = 0; j < items; ++j) {
    const float diagonal = inverse.row(j)[static_cast<std::size_t>(j)];
    if (!(diagonal > 0.0F)) throw_indefinite(values.l2);
    columns.push_back({l2, weights.of_items[static_cast<std::size_t>(j)], diagonal});
  }
  return std::make_unique<EaseModel>(std::move(inverse), values.dropout, std::move(columns), threads);
}

}  // namespace vaecf::models
