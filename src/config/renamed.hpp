#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace vaecf::config {

/// Keys that had another name before 1.0.
inline constexpr std::pair<std::string_view, std::string_view> renamed_keys[] = {
    {"data.prepare.features", "data.prepare.user_features"},
    {"data.prepare.holdout", "data.prepare.held_out"},
    {"data.prepare.new_items", "data.prepare.new_item_fraction"},
    {"data.prepare.weights", "data.prepare.interaction_weights"},
    {"distributed.optimizer", "distributed.optimizer_state"},
    {"distributed.servers", "distributed.parameter_server.servers"},
    {"distributed.staleness", "distributed.parameter_server.staleness"},
    {"distributed.stall_warning", "watchdog.warning_seconds"},
    {"distributed.startup_timeout", "watchdog.startup_timeout_seconds"},
    {"distributed.timeout", "watchdog.timeout_seconds"},
    {"distributed.updates", "distributed.parameter_server.updates"},
    {"distributed.validation_timeout", "watchdog.evaluation_timeout_seconds"},
    {"model.features", "model.user_features"},
    {"model.item_knn.per", "model.item_knn.neighbors_of"},
    {"run.keep", "run.keep_checkpoints"},
    {"validation.baselines", "evaluation.baselines"},
    {"validation.metrics", "evaluation.metrics"},
};

/// Returns the name of a key that had the name `before`, for messages; empty if there is none.
inline std::string_view renamed_key(std::string_view before) {
  const auto* const found =
      std::ranges::find(renamed_keys, before, [](const auto& key) { return key.first; });
  return found == std::end(renamed_keys) ? std::string_view() : found->second;
}

}  // namespace vaecf::config
