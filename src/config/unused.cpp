// Keys that are set but have no effect.
#include <vaecf/comm/distributed_options.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <tuple>

#include "config/keys.hpp"

namespace vaecf::config {
namespace {

// A key, or a section of keys with a point at its end, and whether it is used.
using Rule = std::pair<const char*, bool>;

// Returns whether `path` is `key`, or in this section if a point is at its end.
bool is_in(const std::string& path, std::string_view key) {
  return key.ends_with('.') ? path.starts_with(key) : path == key;
}

bool all_use(const std::string& path, std::span<const Rule> rules) {
  return std::ranges::all_of(rules,
                             [&](const Rule& rule) { return rule.second || !is_in(path, rule.first); });
}

// Returns whether holds(kind) for the model of a type or for one of its baselines: models that are solved.
template <class Holds>
bool any_model(models::ModelType type, const Holds& holds) {
  return std::ranges::any_of(models::all_kinds(), [&](const models::Kind* kind) {
    return (kind->type() == type || models::is_solved(kind->type())) && holds(*kind);
  });
}

// Returns whether training with `config` uses the key `path`.
bool trains_with(const std::string& path, const Config& config) {
  using enum device::OptimizerKind;
  const auto& [optimizer, distributed] = std::tie(config.options.optimizer.type, config.options.distributed);
  const bool servers = distributed.strategy == comm::StrategyKind::parameter_server;
  const bool asynchronous = servers && distributed.updates == comm::ServerUpdates::asynchronous;
  const models::ModelOptions& model = config.options.model;
  const std::array rules = {Rule{"train.optimizer.beta1", optimizer == adam},
                            Rule{"train.optimizer.beta2", optimizer != sgd},
                            Rule{"train.optimizer.epsilon", optimizer != sgd},
                            Rule{"train.optimizer.momentum", optimizer != adam},
                            Rule{"distributed.parameter_server.servers", servers},
                            Rule{"distributed.parameter_server.updates", servers},
                            Rule{"distributed.parameter_server.staleness", asynchronous}};
  return is_used(path, model.type) && all_use(path, rules) &&
         any_model(model.type, [&](const models::Kind& kind) {
           return describes(path, kind) && std::ranges::count(kind.without_effect(model), path) == 0;
         });
}

bool of_prepare(const std::string& path) {
  return path.starts_with("data.source.") || path.starts_with("data.prepare.");
}

}  // namespace

bool describes(const std::string& path, const models::Kind& model) {
  for (const std::string_view key : models::shared_keys())
    if (is_in(path, key)) return model.uses(key);
  return std::ranges::none_of(models::all_kinds(), [&](const models::Kind* kind) {
    return kind != &model && path.starts_with(section_of(*kind));
  });
}

bool is_used(const std::string& path, models::ModelType type) {
  if (models::is_solved(type) && (path.starts_with("train.") || path == "data.virtual_shards")) return false;
  return any_model(type, [&](const models::Kind& kind) { return describes(path, kind); });
}

std::vector<std::string> unused_keys(const Config& config, Command command) {
  std::vector<std::string> unused;
  const Config defaults;
  for (const Key& key : all_keys()) {
    const bool used =
        command == Command::prepare
            ? !of_prepare(key.path) || data::prepare_uses(key.path, config.source, config.prepare)
            : of_prepare(key.path) || trains_with(key.path, config);
    if (used || !config.places.contains(key.path) || key.write(config) == key.write(defaults)) continue;
    unused.push_back(key.path);
  }
  return unused;
}

}  // namespace vaecf::config
