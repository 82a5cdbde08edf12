#include "train/item_models/ease.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "train/item_models/parallel_for.hpp"

namespace vaecf::train {
namespace {

/// Adds row `item` of X'X without its diagonal to `row` (items).
void add_gram_row(const Interactions& train, std::int64_t item, std::span<float> row) {
  for (const std::int32_t user : train.items.view().row(item))
    for (const std::int32_t other : train.users.view().row(user))
      if (other != item) row[static_cast<std::size_t>(other)] += 1.0F;
}

}  // namespace

Ease::Ease(const Interactions& train, double l2, double dropout, const RunContext& context, int threads)
    : items_(train.items.rows()) {
  comm::Communicator& ranks = context.communicator;
  solved_ = std::make_unique<cpu::SpdInverse>(items_, ranks.rank(), ranks.size(), threads);
  const Range own = solved_->rows_of(ranks.rank());
  parallel_for(threads, own, [&](std::int64_t i) {
    const auto users = static_cast<double>(train.items.view().row_size(i));
    solved_->row(i)[static_cast<std::size_t>(i)] =
        static_cast<float>(users + l2 + users * dropout / (1.0 - dropout));
  });
  const std::string title = format("EASE, {} items, l2 {:g}, dropout {:g}", items_, l2, dropout);
  context.progress.begin(title, solved_->stride() / cpu::SpdInverse::block, "blocks");
  const auto report = [&](std::int64_t done, std::int64_t) {
    ranks.activity().note_progress();
    context.progress.update(done);
  };
  const std::optional<bool> on_gpu =
      context.engine.invert_on_gpu(*solved_, {train.users.view(), train.items.view()}, ranks, report);
  if (!on_gpu) {
    context.progress.begin("counting the users of pairs of items", own.size(), "items");
    parallel_for(
        threads, own, [&](std::int64_t i) { add_gram_row(train, i, solved_->row(i)); },
        [&](std::int64_t done) {
          ranks.activity().note_progress();
          context.progress.update(done);
        });
    context.progress.begin(title, solved_->stride() / cpu::SpdInverse::block, "blocks");
  }
  if (!on_gpu && context.engine.facts().device == "cuda") {
    context.log.info(
        "EASE of {} items is solved on the CPU: its matrix does not fit into the memory of the {}", items_,
        ranks.size() == 1 ? "GPU" : "GPUs of all ranks");
  }
  const bool definite =
      on_gpu ? *on_gpu
             : solved_->invert([&](std::span<float> values, int root) { ranks.broadcast(values, root); },
                               report);
  context.progress.end();
  if (definite && ranks.size() > 1) gather_inverse(ranks);
  for (std::int64_t j = 0; definite && j < items_; ++j)
    diagonal_.push_back(row(j)[static_cast<std::size_t>(j)]);
  if (!definite || !std::ranges::all_of(diagonal_, [](float value) { return value > 0.0F; })) {
    InputError error(
        format("model.ease.l2: with {:g} the matrix of EASE is not positive definite in fp32; "
               "use a larger value",
               l2));
    error.mark_on_all_ranks();
    throw error;
  }
  stored_diagonal_.assign(diagonal_.begin(), diagonal_.end());
}

Ease::Ease(cpu::FloatBuffer inverse, std::vector<double> diagonal)
    : items_(static_cast<std::int64_t>(diagonal.size())),
      inverse_(std::move(inverse)),
      diagonal_(diagonal.begin(), diagonal.end()),
      stored_diagonal_(std::move(diagonal)) {}

StoredWeights Ease::stored() const {
  const auto read_rows = [this](std::int64_t begin, std::int64_t end, std::span<float> out) {
    for (std::int64_t i = begin; i < end; ++i) std::ranges::copy(row(i), out.begin() + (i - begin) * items_);
  };
  return {{{"weights/items/inverse", items_, items_, false, read_rows}},
          {{"weights/items/diagonal", stored_diagonal_}}};
}

void Ease::gather_inverse(comm::Communicator& ranks) {
  inverse_.resize(items_ * items_);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Range rows = solved_->rows_of(rank);
    const std::span<float> all(inverse_.data() + rows.begin * items_,
                               static_cast<std::size_t>(rows.size() * items_));
    if (rank == ranks.rank())
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        std::ranges::copy(solved_->row(i), all.begin() + (i - rows.begin) * items_);
    ranks.broadcast(all, rank);
  }
  solved_.reset();
}

std::span<const float> Ease::row(std::int64_t i) const {
  if (solved_) return solved_->row(i);
  return {inverse_.data() + i * items_, static_cast<std::size_t>(items_)};
}

void Ease::score(std::span<const std::int32_t> history, std::span<float> scores) const {
  // x B = x - x P / diag(P), since B_jj = 0 = 1 - P_jj / P_jj.
  std::ranges::fill(scores, 0.0F);
  for (const std::int32_t item : history) {
    const std::span<const float> weights = row(item);
    for (std::size_t j = 0; j < scores.size(); ++j) scores[j] -= weights[j];
  }
  for (std::size_t j = 0; j < scores.size(); ++j) scores[j] /= diagonal_[j];
  for (const std::int32_t item : history) scores[static_cast<std::size_t>(item)] += 1.0F;
}

}  // namespace vaecf::train
