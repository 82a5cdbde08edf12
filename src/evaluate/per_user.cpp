// Evaluator::per_user(): the metrics of each user as columns.
#include <vaecf/base/text.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/evaluate/popularity.hpp>

#include <cstring>
#include <type_traits>

namespace vaecf::evaluate {
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

io::UserColumns Evaluator::per_user(
    const std::vector<std::pair<std::string, const EvaluationResult*>>& results) {
  comm::Communicator& ranks = context_.data_parallel_ranks();
  const CsrView fold_in = held_out_.fold_in.view();
  const CsrView targets = held_out_.targets.view();
  const std::span<const std::int64_t> counts = popularity()->counts();
  std::vector<std::int64_t> rows;  // of this rank, with a target
  std::vector<std::int64_t> history;
  std::vector<std::int64_t> target_count;
  std::vector<double> target_popularity;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    if (targets.row_size(row) == 0) continue;
    rows.push_back(held_out_.rows.begin + row);
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
  for (const auto& [prefix, result] : results) {
    for (const auto& [name, values] : result->of_users) {
      std::vector<double> mine;
      for (const std::int64_t row : rows) mine.push_back(values[row - held_out_.rows.begin]);
      content.columns.push_back({prefix + name, gather(ranks, mine)});
    }
  }

  for (const auto& [group, member] :
       {std::pair("head", &EvaluationResult::head), std::pair("tail", &EvaluationResult::tail)}) {
    if (group_metrics_.empty()) break;
    const auto of_rows = [&](const auto& values) {
      std::remove_cvref_t<decltype(values)> mine;
      for (const std::int64_t row : rows) mine.push_back(values[row - held_out_.rows.begin]);
      return gather(ranks, mine);
    };
    content.columns.push_back(
        {format("{}/targets", group), of_rows((results.front().second->*member).targets)});
    for (const auto& [prefix, result] : results)
      for (const auto& [name, values] : (result->*member).of_users)
        content.columns.push_back({format("{}/{}{}", group, prefix, name), of_rows(values)});
  }
  content.users = ids_of(gather(ranks, rows));
  if (new_items_ == 0) return content;

  target_count.clear();
  const CsrView new_targets = new_item_users_.held_out.targets.view();
  for (std::int64_t row = 0; row < new_targets.rows(); ++row)
    target_count.push_back(new_targets.row_size(row));
  content.columns.push_back({"new_items/user_id", ids_of(gather(ranks, new_item_users_.rows))});
  content.columns.push_back({"new_items/targets", gather(ranks, target_count)});
  for (const auto& [prefix, result] : results)
    if (result->new_items)
      for (const auto& [name, values] : result->new_items->of_users)
        content.columns.push_back({"new_items/" + prefix + name, gather(ranks, values)});
  return content;
}

io::IdList Evaluator::ids_of(const std::vector<std::int64_t>& rows) const {
  const std::string path = split_ + "/user_id";
  if (!dataset_.has_ids(path)) return {rows, {}};
  return dataset_.read_ids(path).select(rows);
}

}  // namespace vaecf::evaluate
