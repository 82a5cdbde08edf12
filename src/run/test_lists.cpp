#include <vaecf/math/metrics.hpp>
#include <vaecf/run/test_lists.hpp>

#include <filesystem>

#include "run/per_user.hpp"

namespace vaecf::run {

ListTestResult test_lists(const Run& run, const std::string& split, evaluate::Lists lists,
                          const std::string& title, const std::string& per_user) {
  evaluate::Evaluator evaluator(run, run.dataset, split, run.options.validation.metrics);
  const CsrView fold_in = evaluator.held_out().fold_in.view();
  const CsrView targets = evaluator.held_out().targets.view();
  ListTestResult result;
  for (const std::string& name : run.options.validation.metrics)
    result.short_lists[math::parse_metric(name).k] = 0;
  for (std::int64_t row = 0; row < targets.rows(); ++row) {
    if (targets.row_size(row) == 0) continue;
    std::vector<std::int32_t>& list = lists[row];
    if (list.empty()) {
      ++result.users_without_list;
      continue;
    }
    const auto is_seen = [&](std::int32_t item) {
      return std::ranges::binary_search(fold_in.row(row), item);
    };
    result.seen_places += static_cast<std::int64_t>(std::erase_if(list, is_seen));
    const std::int64_t unseen = run.dataset.items() - fold_in.row_size(row);
    for (auto& [k, short_lists] : result.short_lists)
      if (std::ssize(list) < std::min<std::int64_t>(k, unseen)) ++short_lists;
  }
  result.test.model = evaluator.evaluate(lists);
  result.test.title = title;
  result.test.split = split;
  if (!per_user.empty()) {
    write_per_user(run, evaluator, result.test, per_user,
                   {{"model", std::filesystem::path(title).stem().string()}, {"lists", title}});
  }
  return result;
}

}  // namespace vaecf::run
