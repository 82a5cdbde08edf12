#include "run/per_user.hpp"

#include <vaecf/comm/collective_checks.hpp>

#include <utility>

namespace vaecf::run {

void write_per_user(const Run& run, evaluate::Evaluator& evaluator, const TestResult& result,
                    const std::string& path, io::Attributes origin) {
  std::vector<std::pair<std::string, const evaluate::EvaluationResult*>> results = {{"", &result.model}};
  std::vector<std::string> sets;
  const auto add = [&](const std::string& set, const evaluate::EvaluationResult& of_set) {
    results.emplace_back(set + "/", &of_set);
    sets.push_back(set);
  };
  if (result.cold_start) add("features_alone", *result.cold_start);
  for (const Baseline& baseline : result.baselines) add(baseline.name, baseline.result);
  io::UserColumns content = evaluator.per_user(results);
  std::vector<std::string> names;
  for (const auto& [name, value] : result.model.metrics)
    if (result.model.of_users.contains(name)) names.push_back(name);
  content.attributes = std::move(origin);
  content.attributes.merge(io::Attributes{{"format_version", std::int64_t{1}},
                                          {"split", result.split},
                                          {"dataset", run.dataset.path()},
                                          {"dataset_checksum", run.dataset.fingerprint()},
                                          {"metrics", join(names)},
                                          {"groups", join(sets)}});
  comm::run_on_root(run.communicator, [&] { io::write_user_columns(path, content); });
  run.log.info("wrote {}: metrics of {} users", path, content.users.size());
}

}  // namespace vaecf::run
