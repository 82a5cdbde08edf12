#include "config/keys.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/math/metrics.hpp>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace vaecf::config {
namespace {

template <class T>
struct Rule {
  std::string text;
  std::function<bool(const T&)> holds;
};

/// `field` maps a Config& to the value's place.
template <class Field, class T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>
Key make_key(std::string path, Field field, std::string doc, std::type_identity_t<Rule<T>> rule = {}) {
  Key key;
  key.path = std::move(path);
  key.doc = std::move(doc);
  key.wants = type_name(T{});
  key.rule = rule.text;
  if constexpr (std::is_same_v<T, backend::Precision>) key.rule = "one of auto, fp32, bf16, fp16";
  key.read = [field, rule](Config& config, const YAML::Node& node) {
    T value{};
    read_value(node, value);
    if (rule.holds && !rule.holds(value)) throw OutOfRange{rule.text};
    field(config) = std::move(value);
  };
  // The field is only looked at: one accessor serves both directions.
  key.write = [field](const Config& config) { return write_value(field(const_cast<Config&>(config))); };
  return key;
}

/// One of several ways to give an amount: see Key::one_of_section.
template <class Field>
Key make_alternative(
    std::string path, Field field, std::string doc,
    std::type_identity_t<Rule<std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>> rule) {
  Key key = make_key(std::move(path), field, std::move(doc), std::move(rule));
  key.one_of_section = key.path.substr(0, key.path.rfind('.') + 1);
  key.clear = [field](Config& config) { field(config) = {}; };
  key.given = [field](const Config& config) { return field(const_cast<Config&>(config)) != 0; };
  return key;
}

template <class T>
Rule<T> at_least(T low) {
  return {format("at least {}", low), [low](const T& value) { return value >= low; }};
}

Rule<double> positive() {
  return {"greater than 0", [](double value) { return value > 0; }};
}

Rule<double> fraction_below_one() {
  return {"at least 0 and below 1", [](double value) { return value >= 0 && value < 1; }};
}

Rule<std::string> one_of(std::vector<std::string> choices) {
  std::string text = "one of ";
  for (std::size_t i = 0; i < choices.size(); ++i) text += (i == 0 ? "" : ", ") + choices[i];
  return {text, [choices = std::move(choices)](const std::string& value) {
            return std::find(choices.begin(), choices.end(), value) != choices.end();
          }};
}

Rule<std::string> not_empty() {
  return {"not empty", [](const std::string& value) { return !value.empty(); }};
}

/// A run's name becomes a folder's.
Rule<std::string> folder_name() {
  return {"a folder name without \"/\"", [](const std::string& value) {
            return !value.empty() && value != "." && value != ".." && value.find('/') == std::string::npos;
          }};
}

bool is_metric(const std::string& name) {
  try {
    math::parse_metric(name);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

Rule<std::vector<std::string>> metric_list() {
  return {"a list of one or more of ndcg@K, recall@K (K at least 1), each once",
          [](const std::vector<std::string>& names) {
            std::vector<std::string> sorted = names;
            std::sort(sorted.begin(), sorted.end());
            return !names.empty() && std::all_of(names.begin(), names.end(), is_metric) &&
                   std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
          }};
}

Rule<std::string> selection() {
  return {"a metric (ndcg@K, recall@K) or last",
          [](const std::string& name) { return name == "last" || is_metric(name); }};
}

Rule<std::vector<std::int64_t>> widths() {
  return {"a list of widths of at least 1, or []", [](const std::vector<std::int64_t>& values) {
            return std::all_of(values.begin(), values.end(), [](std::int64_t width) { return width >= 1; });
          }};
}

using Keys = std::vector<Key>;
using i64 = std::int64_t;

void add_data_keys(Keys& keys) {
  keys.push_back(make_key(
      "name", [](Config & c) -> auto& { return c.session.name; }, "runs go to run.directory/name",
      folder_name()));
  keys.push_back(make_key(
      "data.file", [](Config & c) -> auto& { return c.session.data.file; },
      "the HDF5 dataset that prepare writes and train reads"));
  keys.push_back(make_key(
      "data.virtual_shards", [](Config & c) -> auto& { return c.session.data.virtual_shards; },
      "train users are cut into this many parts; ranks share them out", at_least(1)));
  keys.push_back(make_key(
      "data.source.format", [](Config & c) -> auto& { return c.source.format; },
      "prepare: how the raw ratings are written",
      one_of({"movielens_csv", "movielens_dat", "movielens_100k", "delimited"})));
  keys.push_back(make_key(
      "data.source.path", [](Config & c) -> auto& { return c.source.path; },
      "prepare: the file of raw ratings"));
  keys.push_back(make_key(
      "data.source.separator", [](Config & c) -> auto& { return c.source.separator; },
      "delimited: what stands between columns, e.g. \",\" or \"\\t\"", not_empty()));
  keys.push_back(make_key(
      "data.source.header", [](Config & c) -> auto& { return c.source.header; },
      "delimited: the first line names the columns"));
  keys.push_back(make_key(
      "data.source.user_column", [](Config & c) -> auto& { return c.source.user_column; },
      "delimited: index from 0, or a name from the header", not_empty()));
  keys.push_back(make_key(
      "data.source.item_column", [](Config & c) -> auto& { return c.source.item_column; },
      "delimited: index from 0, or a name from the header", not_empty()));
  keys.push_back(make_key(
      "data.source.rating_column", [](Config & c) -> auto& { return c.source.rating_column; },
      "delimited: the same; empty: every line is an interaction"));
  keys.push_back(make_key(
      "data.prepare.min_rating", [](Config & c) -> auto& { return c.prepare.min_rating; },
      "keep rating >= this (\"> 3.5\" is 4.0 on half stars)"));
  keys.push_back(make_key(
      "data.prepare.min_user_items", [](Config & c) -> auto& { return c.prepare.min_user_items; },
      "then keep users with at least this many items", at_least<i64>(0)));
  keys.push_back(make_key(
      "data.prepare.min_item_users", [](Config & c) -> auto& { return c.prepare.min_item_users; },
      "before that, keep items with at least this many users", at_least<i64>(0)));
  keys.push_back(make_key(
      "data.prepare.validation_users", [](Config & c) -> auto& { return c.prepare.validation_users; },
      "users held out for validation", at_least<i64>(0)));
  keys.push_back(make_key(
      "data.prepare.test_users", [](Config & c) -> auto& { return c.prepare.test_users; },
      "users held out for the test", at_least<i64>(0)));
  keys.push_back(make_key("data.prepare.held_out_fraction",
                          [](Config & c) -> auto& { return c.prepare.held_out_fraction; },
                          "share of a held-out user's items that the model must find",
                          {"greater than 0 and below 1", [](const double& v) { return v > 0 && v < 1; }}));
  keys.push_back(make_key(
      "data.prepare.split", [](Config & c) -> auto& { return c.prepare.split; },
      "liang2018: bit-exact to the published one", one_of({"liang2018", "random"})));
  keys.push_back(make_key(
      "data.prepare.seed", [](Config & c) -> auto& { return c.prepare.seed; }, "of the split"));
}

void add_model_keys(Keys& keys) {
  keys.push_back(make_key(
      "model.type", [](Config & c) -> auto& { return c.session.model.type; },
      "mult_vae: variational; mult_dae: denoising, no sampling, no KL", one_of({"mult_vae", "mult_dae"})));
  keys.push_back(make_key(
      "model.hidden", [](Config & c) -> auto& { return c.session.model.hidden; },
      "widths of the encoder's hidden layers, mirrored in the decoder", widths()));
  keys.push_back(make_key(
      "model.latent", [](Config & c) -> auto& { return c.session.model.latent; }, "width of the latent layer",
      at_least<i64>(1)));
  keys.push_back(make_key(
      "model.dropout", [](Config & c) -> auto& { return c.session.model.dropout; },
      "share of input items dropped in training", fraction_below_one()));
}

void add_train_keys(Keys& keys) {
  keys.push_back(make_key(
      "train.epochs", [](Config & c) -> auto& { return c.session.train.epochs; },
      "passes over the train users", at_least<i64>(1)));
  keys.push_back(make_key(
      "train.patience", [](Config & c) -> auto& { return c.session.train.patience; },
      "stop after this many validations without a better one; 0: never", at_least<i64>(0)));
  keys.push_back(make_key(
      "train.last_batch", [](Config & c) -> auto& { return c.session.train.last_batch; },
      "the short last batch of an epoch", one_of({"keep", "drop"})));
  keys.push_back(make_key(
      "train.batch_size", [](Config & c) -> auto& { return c.session.train.batch_size; },
      "users per step over all ranks", at_least<i64>(1)));
  keys.push_back(make_key(
      "train.optimizer.type", [](Config & c) -> auto& { return c.session.optimizer.type; },
      "how weights move", one_of({"adam", "rmsprop", "sgd"})));
  keys.push_back(make_key(
      "train.optimizer.learning_rate", [](Config & c) -> auto& { return c.session.optimizer.learning_rate; },
      "step size, not scaled with ranks", positive()));
  keys.push_back(make_key(
      "train.optimizer.beta1", [](Config & c) -> auto& { return c.session.optimizer.beta1; },
      "adam: decay of the first moment", fraction_below_one()));
  keys.push_back(make_key(
      "train.optimizer.beta2", [](Config & c) -> auto& { return c.session.optimizer.beta2; },
      "adam: decay of the second moment; rmsprop: of the mean square", fraction_below_one()));
  keys.push_back(make_key(
      "train.optimizer.epsilon", [](Config & c) -> auto& { return c.session.optimizer.epsilon; },
      "adam, rmsprop: keeps the divisor above 0", positive()));
  keys.push_back(make_key(
      "train.optimizer.momentum", [](Config & c) -> auto& { return c.session.optimizer.momentum; },
      "rmsprop, sgd", fraction_below_one()));
  keys.push_back(make_key("train.annealing.cap",
                          [](Config & c) -> auto& { return c.session.train.annealing.cap; },
                          "weight of the KL term: beta = min(cap, t / T)",
                          {"at least 0", [](const double& v) { return v >= 0; }}));
  keys.push_back(make_alternative(
      "train.annealing.steps", [](Config & c) -> auto& { return c.session.train.annealing.steps; },
      "T in updates; give exactly one of steps, epochs, users", positive()));
  keys.push_back(make_alternative(
      "train.annealing.epochs", [](Config & c) -> auto& { return c.session.train.annealing.epochs; },
      "T in epochs, the same curve at any batch size", positive()));
  keys.push_back(make_alternative(
      "train.annealing.users", [](Config & c) -> auto& { return c.session.train.annealing.users; },
      "T in users seen", positive()));
  keys.push_back(make_key("train.weight_decay",
                          [](Config & c) -> auto& { return c.session.train.weight_decay; },
                          "lambda of lambda * sum of squared weights, part of the loss",
                          {"at least 0", [](const double& v) { return v >= 0; }}));
  keys.push_back(make_key(
      "train.clip_gradient_norm", [](Config & c) -> auto& { return c.session.train.clip_gradient_norm; },
      "gradients (means over users, without weight decay's part) of a larger norm are scaled down to it; 0: "
      "off; costs a pass over the gradient, and updates wait for all of it",
      at_least(0.0)));
  keys.push_back(make_key(
      "train.precision", [](Config & c) -> auto& { return c.backend.precision; },
      "of the products; auto: bf16 on CUDA and CPUs with AMX, else fp32; fp16 needs CUDA"));
  keys.push_back(make_key(
      "train.seed", [](Config & c) -> auto& { return c.session.train.seed; },
      "of initialisation, dropout, latent noise and shuffling"));
  keys.push_back(make_key(
      "train.deterministic", [](Config & c) -> auto& { return c.backend.deterministic; },
      "two runs on the same machines, ranks and threads give the same bits, on GPUs too, where that costs "
      "speed: no products tried out for the fastest, no sums that depend on timing, one algorithm between "
      "GPUs"));
}

void add_run_keys(Keys& keys) {
  keys.push_back(make_key(
      "validation.every", [](Config & c) -> auto& { return c.session.validation.every; },
      "epochs between validations; 0: never", at_least<i64>(0)));
  keys.push_back(make_key(
      "validation.metrics", [](Config & c) -> auto& { return c.session.validation.metrics; },
      "what validation and test report", metric_list()));
  keys.push_back(make_key(
      "validation.select", [](Config & c) -> auto& { return c.session.validation.select; },
      "which of the metrics picks best.h5; last: the last epoch is taken", selection()));
  keys.push_back(make_key(
      "run.directory", [](Config & c) -> auto& { return c.session.run.directory; }, "where run folders go",
      not_empty()));
  keys.push_back(make_alternative(
      "run.checkpoint_every.epochs",
      [](Config & c) -> auto& { return c.session.run.checkpoint_every.epochs; },
      "epochs between checkpoints to go on from, also given as run.checkpoint_every: 1; 0: none but the best",
      at_least<i64>(0)));
  keys.back().stands_for_section = true;
  keys.push_back(make_alternative(
      "run.checkpoint_every.steps", [](Config & c) -> auto& { return c.session.run.checkpoint_every.steps; },
      "or updates between them", at_least<i64>(1)));
  keys.push_back(make_alternative(
      "run.checkpoint_every.minutes",
      [](Config & c) -> auto& { return c.session.run.checkpoint_every.minutes; },
      "or minutes between them, for epochs that are over faster than a checkpoint is written", positive()));
  keys.push_back(make_key(
      "run.keep", [](Config & c) -> auto& { return c.session.run.keep; },
      "how many of them stay, the newest, beside best.h5", at_least<i64>(1)));
  keys.push_back(make_key(
      "device", [](Config & c) -> auto& { return c.backend.device; },
      "who computes; auto: GPUs where there are", one_of({"auto", "cpu", "cuda"})));
  keys.push_back(make_key(
      "backend.kernels", [](Config & c) -> auto& { return c.backend.kernels; },
      "portable: plain loops on the CPU, no library products", one_of({"auto", "portable"})));
  keys.push_back(make_key(
      "backend.threads", [](Config & c) -> auto& { return c.backend.threads; },
      "per rank; 0: this rank's share of the cores it may use", at_least(0)));
  keys.push_back(make_key(
      "backend.resident", [](Config & c) -> auto& { return c.backend.resident; },
      "cuda: train users in the GPU's memory; off: copied batch by batch; auto: where they fit",
      one_of({"auto", "on", "off"})));
  keys.push_back(make_key(
      "backend.graph", [](Config & c) -> auto& { return c.backend.graph; },
      "cuda: record a step once and replay it; auto: where it can be", one_of({"auto", "on", "off"})));
  keys.push_back(make_key(
      "distributed.strategy", [](Config & c) -> auto& { return c.session.distributed.strategy; },
      "how ranks work together", one_of({"allreduce"})));
  keys.push_back(make_key(
      "distributed.algorithm", [](Config & c) -> auto& { return c.session.distributed.algorithm; },
      "of the all-reduce; auto: the library's own choice", one_of({"ring", "auto"})));
  keys.push_back(make_key(
      "distributed.optimizer", [](Config & c) -> auto& { return c.session.distributed.optimizer; },
      "sharded: each rank updates its part of the weights and keeps the moments of that part alone",
      one_of({"replicated", "sharded"})));
  keys.push_back(make_key(
      "distributed.wire", [](Config & c) -> auto& { return c.session.distributed.wire; },
      "numbers that travel between ranks: gradients, and weights where the optimizer is sharded",
      one_of({"fp32", "bf16"})));
  keys.push_back(
      make_key("distributed.bucket_mib", [](Config & c) -> auto& { return c.session.distributed.bucket_mib; },
               "gradients are reduced in pieces of this size",
               {"between 0.001 and 1024", [](const double& v) { return v >= 0.001 && v <= 1024; }}));
  keys.push_back(make_key(
      "distributed.overlap", [](Config & c) -> auto& { return c.session.distributed.overlap; },
      "reduce while backward still runs; auto: where it is faster", one_of({"auto", "on", "off"})));
  keys.push_back(make_key(
      "distributed.warn_after", [](Config & c) -> auto& { return c.session.distributed.warn_after; },
      "seconds without progress after which the late rank is named", positive()));
  keys.push_back(make_key(
      "distributed.timeout", [](Config & c) -> auto& { return c.session.distributed.timeout; },
      "seconds without progress, or without a sign of life, after which the run is ended", positive()));
  keys.push_back(make_key(
      "distributed.loading_timeout",
      [](Config & c) -> auto& { return c.session.distributed.loading_timeout; },
      "the same while ranks find each other, set up and load", positive()));
  keys.push_back(make_key(
      "distributed.validation_timeout",
      [](Config & c) -> auto& { return c.session.distributed.validation_timeout; },
      "the same in validation, test, benchmark and writing a checkpoint", positive()));
  keys.push_back(make_key(
      "distributed.allow_shared_gpu", [](Config & c) -> auto& { return c.backend.allow_shared_gpu; },
      "several ranks on one GPU, for tests: their speed means nothing"));
}

}  // namespace

std::vector<Key> all_keys() {
  Keys keys;
  add_data_keys(keys);
  add_model_keys(keys);
  add_train_keys(keys);
  add_run_keys(keys);
  return keys;
}

}  // namespace vaecf::config
