// Keys that are set but have no effect.
#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "config/keys.hpp"

namespace vaecf::config {
namespace {

// A key, or a section of keys with a point at its end, and whether it is used.
using Rule = std::pair<const char*, bool>;

bool all_use(const std::string& path, std::span<const Rule> rules) {
  return std::ranges::all_of(rules, [&](const Rule& rule) {
    const std::string key = rule.first;
    const bool matches = key.ends_with('.') ? path.starts_with(key) : path == key;
    return rule.second || !matches;
  });
}

// Returns whether training with `config` uses the key `path`.
bool trains_with(const std::string& path, const Config& config) {
  using enum device::OptimizerKind;
  const auto& [optimizer, distributed] = std::tie(config.options.optimizer.type, config.options.distributed);
  const bool servers = distributed.strategy == comm::StrategyKind::parameter_server;
  const bool asynchronous = servers && distributed.updates == comm::ServerUpdates::asynchronous;
  const std::array rules = {Rule{"train.optimizer.beta1", optimizer == adam},
                            Rule{"train.optimizer.beta2", optimizer != sgd},
                            Rule{"train.optimizer.epsilon", optimizer != sgd},
                            Rule{"train.optimizer.momentum", optimizer != adam},
                            Rule{"model.recvae.gamma", config.options.model.recvae.beta == 0},
                            Rule{"distributed.servers", servers},
                            Rule{"distributed.updates", servers},
                            Rule{"distributed.staleness", asynchronous}};
  return is_used(path, config.options.model.type) && all_use(path, rules);
}

bool of_prepare(const std::string& path) {
  return path.starts_with("data.source.") || path.starts_with("data.prepare.");
}

}  // namespace

bool is_used(const std::string& path, models::ModelType type) {
  const models::ModelFacts& facts = models::facts_of(type);
  if (facts.solved && (path.starts_with("train.") || path == "data.virtual_shards")) return false;
  const std::array rules = {Rule{"model.dropout", facts.layers && !facts.plain},
                            Rule{"model.history_dropout", facts.layers && !facts.plain},
                            Rule{"model.features", facts.features},
                            Rule{"model.hidden", facts.layers},
                            Rule{"model.latent", facts.layers},
                            Rule{"model.recvae.", facts.alternates},
                            Rule{"model.elsa.", facts.item_vectors},
                            Rule{"model.autoencoder.", facts.plain},
                            Rule{"train.annealing.", facts.anneals},
                            Rule{"train.weight_decay", !facts.alternates}};
  return all_use(path, rules);
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
