#include "models/item/ease.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>

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

std::optional<device::Inversion> invert_on_gpus(device::Device& device, device::SpdInverse& matrix,
                                                const device::GramInput& x, comm::Communicator& ranks,
                                                const device::SpdInverse::Progress& progress) {
  device::Solver* const solver = device.solver();
  const bool fits = solver != nullptr && solver->fits(matrix, x);
  if (ranks.all_reduce(std::int64_t{fits}, comm::Reduction::min) == 0) return std::nullopt;
  const auto broadcast = [&](std::span<float> values, int root) { ranks.broadcast(values, root); };
  return solver->invert(matrix, x, broadcast, progress);
}

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
  return std::make_unique<EaseModel>(std::move(inverse), values.dropout, std::move(columns));
}

void Inverse::gather(comm::Communicator& ranks) {
  gathered.resize(items * items);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Range rows = solved->rows_of(rank);
    const std::span<float> all(gathered.data() + rows.begin * items,
                               static_cast<std::size_t>(rows.size() * items));
    if (rank == ranks.rank())
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        std::ranges::copy(solved->row(i), all.begin() + (i - rows.begin) * items);
    ranks.broadcast(all, rank);
  }
  solved.reset();
}

std::span<const float> Inverse::row(std::int64_t i) const {
  if (solved) return solved->row(i);
  return {gathered.data() + i * items, static_cast<std::size_t>(items)};
}

EaseModel::EaseModel(Solution solution, double dropout, std::vector<math::LinearColumn> columns)
    : solution_(std::move(solution)), dropout_(dropout), columns_(std::move(columns)) {
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
    for (std::int64_t i = begin; i < end; ++i) {
      float* to = &out[static_cast<std::size_t>((i - begin) * inverse.items)];
      std::ranges::transform(inverse.row(i), scale_, to, std::multiplies<>());
      to[i] = 0.0F;
    }
  };
  return {{{matrix_name, inverse.items, inverse.items, false, read_rows}}, {}};
}

void EaseModel::score(const SparseRow& history, std::span<float> scores) const {
  if (const auto* sparse = std::get_if<SparseWeights>(&solution_)) {
    sparse->score(history, scores);
  } else {
    const auto& inverse = std::get<Inverse>(solution_);
    std::ranges::fill(scores, 0.0F);
    for_elements(history, [&](std::int32_t item, float x) {
      const std::span<const float> weights = inverse.row(item);
      for (std::size_t j = 0; j < scores.size(); ++j) scores[j] += x * weights[j];
    });
    for_elements(history, [&](std::int32_t item, float x) {
      const auto j = static_cast<std::size_t>(item);
      scores[j] -= x * inverse.row(item)[j];
    });
  }
  for (std::size_t j = 0; j < scores.size(); ++j) scores[j] *= scale_[j];
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

std::vector<EaseValues> combinations(const EaseOptions& options) {
  std::vector<EaseValues> all;
  for (const double user_power : options.user_power)
    for (const double feature_weight : options.feature_weight)
      for (const double l2 : options.l2)
        for (const double dropout : options.dropout)
          for (const double relax : options.relax)
            for (const double kept_weight : options.kept_weight)
              all.push_back({l2, dropout, options.neighbors, user_power, relax, kept_weight, feature_weight});
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
  if (values.feature_weight > 0.0) title += format(" features {:g}", values.feature_weight);
  title += format(" l2 {:g}", values.l2);
  if (values.dropout > 0.0) title += format(" p {:g}", values.dropout);
  if (values.relax > 0.0) title += format(" relax {:g}", values.relax);
  if (values.kept_weight > 0.0) title += format(" kept {:g}", values.kept_weight);
  return title;
}

void throw_indefinite(double l2) {
  throw comm::on_all_ranks(
      InputError(format("model.ease.l2: with {:g} the matrix of EASE is not positive definite in fp32; "
                        "use a larger value",
                        l2)));
}

}  // namespace vaecf::models
