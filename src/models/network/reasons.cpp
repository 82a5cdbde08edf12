#include "models/network/reasons.hpp"

#include <vaecf/base/parallel_for.hpp>
#include <vaecf/models/kind.hpp>

#include <algorithm>
#include <utility>

#include "models/contributions.hpp"

namespace vaecf::models {
namespace {

/// Contributions in a network: differences of scores with and without one item, where the values of the other
/// items stay as they are. The layers up to the output layer are those of the model, on its device; of the
/// output layer only the listed items are computed.
class NetworkReasons final : public Reasons {
 public:
  NetworkReasons(TrainableModel& model, OutputTable output, const Context& context)
      : model_(model), output_(std::move(output)), context_(context), threads_(item_model_threads(context)) {}

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
                                    : place >= size - max_left_out;
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

  TrainableModel& model_;
  OutputTable output_;
  Context context_;
  int threads_;
};

}  // namespace

std::unique_ptr<Reasons> make_network_reasons(TrainableModel& model, OutputTable output,
                                              const Context& context) {
  return std::make_unique<NetworkReasons>(model, std::move(output), context);
}

}  // namespace vaecf::models
