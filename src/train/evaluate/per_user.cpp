#include "train/evaluate/per_user.hpp"

#include <vaecf/comm/communicator.hpp>

#include <cstring>
#include <utility>

#include "train/evaluate/popularity.hpp"

namespace vaecf::train {
namespace {

/// Returns the values of all ranks, in rank order. Collective.
template <class T>
std::vector<T> gather(comm::Communicator& ranks, const std::vector<T>& mine) {
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T));
  std::vector<T> all;
  for (const std::string& part : comm::all_gather_strings(ranks, bytes)) {
    if (part.empty()) continue;
    all.resize(all.size() + part.size() / sizeof(T));
    std::memcpy(all.data() + all.size() - part.size() / sizeof(T), part.data(), part.size());
  }
  return all;
}

}  // namespace

io::UserColumns metrics_per_user(const TestResult& result, Evaluator& evaluator, const Run& run) {
  comm::Communicator& ranks = run.data_ranks();
  const CsrView fold_in = evaluator.held_out().fold_in.view();
  const CsrView targets = evaluator.held_out().targets.view();
  const std::span<const std::int64_t> counts = evaluator.popularity().counts();
  std::vector<std::int64_t> rows;  // of this rank, with a target
  std::vector<std::int64_t> history;
  std::vector<std::int64_t> target_count;
  std::vector<double> target_popularity;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    if (targets.row_size(row) == 0) continue;
    rows.push_back(evaluator.held_out().rows.begin + row);
    history.push_back(fold_in.row_size(row));
    target_count.push_back(targets.row_size(row));
    double sum = 0.0;
    for (const std::int32_t item : targets.row(row)) sum += static_cast<double>(counts[item]);
    target_popularity.push_back(sum / static_cast<double>(targets.row_size(row)));
  }

  io::UserColumns content;
  content.columns = {{"history", gather(ranks, history)},
                     {"targets", gather(ranks, target_count)},
                     {"target_popularity", gather(ranks, target_popularity)}};
  const auto add = [&](const EvaluationResult& from, const std::string& group) {
    for (const auto& [name, values] : from.of_users) {
      std::vector<double> mine;
      for (const std::int64_t row : rows)
        mine.push_back(values[static_cast<std::size_t>(row - evaluator.held_out().rows.begin)]);
      content.columns.push_back({group + name, gather(ranks, mine)});
    }
  };
  add(result.model, "");
  if (result.cold_start) add(*result.cold_start, "cold/");
  for (const Baseline& baseline : result.baselines) add(baseline.result, baseline.name + "/");

  io::IdList ids;
  if (run.dataset.has_ids("test/user_id")) ids = run.dataset.read_ids("test/user_id");
  for (const std::int64_t row : gather(ranks, rows)) {
    if (!ids.numeric()) {
      content.users.strings.push_back(ids.strings[static_cast<std::size_t>(row)]);
    } else {
      content.users.numbers.push_back(ids.size() > 0 ? ids.numbers[static_cast<std::size_t>(row)] : row);
    }
  }
  return content;
}

}  // namespace vaecf::train
