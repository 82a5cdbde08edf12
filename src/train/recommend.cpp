#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/session.hpp>

#include <algorithm>
#include <numeric>

#include "checkpoint_reading.hpp"

namespace vaecf::train {

std::vector<Recommendation> recommend(const SessionOptions& options, const Services& services,
                                      const std::string& checkpoint, CsrView seen, int k) {
  if (k < 1) throw InputError(format("{} recommendations cannot be made: ask for 1 or more", k));
  // One rank works alone, whatever world it lives in.
  const auto self = comm::make_self_communicator();
  const Services alone{*self, services.backend, services.log, services.progress};

  const LoadedCheckpoint state = read_checkpoint_state(checkpoint, alone);
  const bool known = std::all_of(seen.columns.begin(), seen.columns.end(),
                                 [&](std::int32_t item) { return item >= 0 && item < state.items; });
  if (!known) {
    throw InputError(
        format("the users hold items beyond the {} that {} was trained on: use the dataset it was "
               "trained on",
               state.items, checkpoint));
  }
  const std::int64_t step = std::clamp<std::int64_t>(seen.rows(), 1, evaluation_batch);
  model::Model model(options.model, state.items, alone.backend, step);
  load_weights(checkpoint, alone, model);
  const auto held = alone.backend.hold_rows(seen, 0, state.items);
  const auto batch = alone.backend.make_batch();

  const auto width = static_cast<std::size_t>(std::min<std::int64_t>(k, state.items));
  std::vector<Recommendation> result(static_cast<std::size_t>(seen.rows()));
  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> items;
  std::vector<float> scores;
  for (std::int64_t begin = 0; begin < seen.rows(); begin += step) {
    rows.resize(static_cast<std::size_t>(std::min(seen.rows() - begin, step)));
    std::iota(rows.begin(), rows.end(), begin);
    alone.backend.gather_batch(*held, rows, false, *batch);
    items.resize(rows.size() * width);
    scores.resize(rows.size() * width);
    model.top_k(*batch, static_cast<int>(width), items, scores);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      Recommendation& user = result[static_cast<std::size_t>(begin) + r];
      for (std::size_t j = r * width; j < (r + 1) * width && items[j] >= 0; ++j) {
        user.items.push_back(items[j]);
        user.scores.push_back(scores[j]);
      }
    }
  }
  return result;
}

}  // namespace vaecf::train
