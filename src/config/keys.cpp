#include "config/keys.hpp"

#include <vaecf/comm/distributed_options.hpp>

#include <yaml-cpp/yaml.h>

#include <cstdlib>

#include "config/constraints.hpp"

namespace vaecf::config {

using namespace keys;

namespace {

/// Makes the value of a key a path, in which "~", alone or before a slash, is the home folder: the variable
/// HOME.
Key as_path(Key key) {
  key.read = [read = std::move(key.read)](Config& config, const YAML::Node& node) {
    const char* const home = std::getenv("HOME");
    const bool at_home = node.IsScalar() && (node.Scalar() == "~" || node.Scalar().starts_with("~/"));
    if (!at_home || home == nullptr || *home == '\0') return read(config, node);
    read(config, YAML::Node(home + node.Scalar().substr(1)));
  };
  return key;
}

/// Returns "NAME: help" of all models.
std::string types_of_models() {
  std::string text;
  for (const models::Kind* kind : models::all_kinds())
    text += format("{}{}: {}", text.empty() ? "" : "; ", kind->name(), kind->help());
  return text;
}

}  // namespace

std::vector<Key> all_keys() {
  constexpr auto max_users = std::numeric_limits<std::int32_t>::max();
  const auto item_slices_of = [](auto& config) -> auto& {
    return config.options.distributed.item_slices;
  };
  const auto only = [](std::string_view option) { return data::formats_that_use(option) + ": "; };
  std::vector<Key> keys = {
      KEY("name", options.name, folder_name(), "name of the run; its folder is run.directory/name"),
      as_path(or_word(KEY("data.file", options.data.file, not_empty(),
                          "path of the HDF5 dataset, written by prepare and read in training"),
                      "null")),
      KEY("data.virtual_shards", options.data.virtual_shards, at_least(1),
          "number of partitions of the train users, distributed over the ranks"),
      or_word(KEY("data.source.format", source.format, one_of(data::source_formats()),
                  "prepare: format of the raw ratings"),
              "null"),
      as_path(or_word(
          KEY("data.source.path", source.path, not_empty(),
              "prepare: file of raw ratings, compressed or not, its folder, or a pattern such as \"combined_data_*.txt\"; delimited: \"-\" for standard input"),
          "null")),
      or_word(KEY("data.source.file", source.file, not_empty(),
                  "which file of a folder or archive to read; null: the usual one of the format"),
              "null"),
      as_path(
          or_word(KEY("data.source.validation_path", source.validation_path, not_empty(),
                      "split given: validation file; null: validation.*, valid.* or val.* next to train.*"),
                  "null")),
      as_path(or_word(KEY("data.source.test_path", source.test_path, not_empty(),
                          "split given: test file; null: test.* next to train.*"),
                      "null")),
      or_word(
          KEY("data.source.separator", source.separator, not_empty(),
              only("separator") +
                  "string between columns, e.g. \";\" or \"\\t\"; null: a comma, or as a first line \"sep=;\" says"),
          "null"),
      KEY("data.source.header", source.header, only("header") + "the first line contains the column names"),
      KEY("data.source.quotes", source.quotes, only("quotes") + "fields may be enclosed in double quotes"),
      KEY("data.source.user_column", source.user_column, not_empty(),
          only("user_column") +
              "column of user ids: name in the header, or index from 0; json_lines: a key; auto: the only one with a usual name, such as user, user_id or userId"),
      KEY("data.source.item_column", source.item_column, not_empty(),
          only("item_column") +
              "column of item ids; auto: the only one with a usual name, such as item, item_id or movieId"),
      or_word(KEY("data.source.rating_column", source.rating_column, not_empty(),
                  only("rating_column") + "column of ratings; null: every line is an interaction"),
              "null"),
      or_word(
          KEY("data.source.time_column", source.time_column, not_empty(),
              only("time_column") +
                  "column of times, which duplicates, held_out: last and split: time follow; null: lines are in order of time"),
          "null"),
      KEY("data.source.list_starts_with", source.list_starts_with,
          only("list_starts_with") +
              "first field of a line: the user, or the number of items (the user is then the line index from 0)"),
      as_path(or_word(
          KEY("data.source.users.path", source.users.path, not_empty(),
              "user table for data.prepare.user_features: a file, a folder of parts, or a pattern, of columns or JSON lines; null: users.dat, u.user, ... next to the ratings or in their archive"),
          "null")),
      or_word(
          KEY("data.source.users.file", source.users.file, not_empty(),
              "which file of a folder or archive to read; null: the one with a known name, or the only one"),
          "null"),
      or_word(KEY("data.source.users.separator", source.users.separator, not_empty(),
                  "string between columns; null: known for known files, else detected in the first line"),
              "null"),
      KEY("data.source.users.header", source.users.header,
          "the first line contains the column names (ignored for known files)"),
      KEY("data.source.users.quotes", source.users.quotes,
          "fields may be enclosed in double quotes (ignored for known files)"),
      KEY("data.source.users.user_column", source.users.id_column, not_empty(),
          "column of user ids: index from 0, or name in the header (ignored for known files)"),
      or_word(KEY("data.source.users.value_separator", source.users.value_separator, not_empty(),
                  "string between several values in a field of features; null: a field is one value"),
              "null"),
      as_path(or_word(
          KEY("data.source.items.path", source.items.path, not_empty(),
              "table of items for data.prepare.item_features: as data.source.users.path; null: movies.csv, movies.dat or u.item next to the ratings or in their archive"),
          "null")),
      or_word(KEY("data.source.items.file", source.items.file, not_empty(), "as data.source.users.file"),
              "null"),
      or_word(KEY("data.source.items.separator", source.items.separator, not_empty(),
                  "as data.source.users.separator"),
              "null"),
      KEY("data.source.items.header", source.items.header, "as data.source.users.header"),
      KEY("data.source.items.quotes", source.items.quotes, "as data.source.users.quotes"),
      KEY("data.source.items.item_column", source.items.id_column, not_empty(),
          "column of item ids: index from 0, or name in the header (ignored for known files)"),
      or_word(KEY("data.source.items.title_column", source.items.title_column, not_empty(),
                  "column of titles, by name or index from 0; null: those of the format, if it has them"),
              "null"),
      or_word(KEY("data.source.items.value_separator", source.items.value_separator, not_empty(),
                  "as data.source.users.value_separator"),
              "null"),
      KEY("data.prepare.duplicates", prepare.duplicates,
          "which event of a user with an item counts: the first, the last, or the one with which the sum or the maximum of their ratings reaches min_rating"),
      or_word(
          KEY("data.prepare.min_rating", prepare.min_rating,
              "minimum rating of an interaction, inclusive (\"> 3.5\" is 4.0 on half-star data); null: all count"),
          "null", data::PrepareOptions::no_minimum,
          [](auto& config) -> auto& { return config.prepare.min_rating; }),
      formerly(
          "data.prepare.weights",
          KEY("data.prepare.interaction_weights", prepare.weights,
              "interaction weights: null (all are 1), the rating v after duplicates, or log1p, log(1 + v); divided by the mean of the user")),
      KEY("data.prepare.min_user_items", prepare.min_user_items, at_least(0),
          "minimum number of items of a user, applied after min_item_users"),
      KEY("data.prepare.min_item_users", prepare.min_item_users, at_least(0),
          "minimum number of users of an item, applied before min_user_items"),
      KEY("data.prepare.repeat_filters", prepare.repeat_filters,
          "apply min_item_users and min_user_items until nothing changes (k-core) instead of once"),
      or_word(
          KEY("data.prepare.validation_users", prepare.validation_users, between(0, max_users),
              "users held out for validation, 0: none. Splits random and liang2018: exactly so many; auto: a tenth, at least 1, at most 10,000. "
              "Other splits: at most so many, drawn by seed; auto: all who can be held out. Split stable has validation_fraction instead"),
          "auto", data::PrepareOptions::automatic,
          [](auto& config) -> auto& { return config.prepare.validation_users; }),
      or_word(
          KEY("data.prepare.test_users", prepare.test_users, between(0, max_users),
              "users held out for the test, as validation_users"),
          "auto", data::PrepareOptions::automatic,
          [](auto& config) -> auto& { return config.prepare.test_users; }),
      KEY("data.prepare.validation_fraction", prepare.validation_fraction, below_one(),
          "split stable: fraction of the users held out for validation"),
      KEY("data.prepare.test_fraction", prepare.test_fraction, below_one(),
          "split stable: fraction of the users held out for the test"),
      KEY("data.prepare.held_out_fraction", prepare.held_out_fraction,
          Constraint{"greater than 0 and below 1",
                     [](double fraction) { return fraction > 0 && fraction < 1; },
                     io::Json{{"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}}},
          "fraction of a held-out user's items that are held out"),
      KEY("data.prepare.split", prepare.split,
          "strong: liang2018 (bit-exact to the published split), random, stable (by hashes, so that no user changes its part when data are added); "
          "weak: leave_one_out, ratio, given (read from files); time: events after two cuts in time"),
      formerly("data.prepare.holdout",
               KEY("data.prepare.held_out", prepare.held_out,
                   "splits leave_one_out and ratio only: which items of a user are held out")),
      exclusive(KEY("data.prepare.time_quantiles", prepare.time_quantiles, two_quantiles(),
                    "split time: fractions of the events before the cuts for validation and test; "
                    "set this or dates")),
      exclusive(KEY("data.prepare.dates", prepare.dates, two_dates(),
                    "split time: dates of the cuts, in UTC; times that are numbers are seconds since 1970")),
      KEY("data.prepare.seed", prepare.seed, "random seed of the split"),
      formerly(
          "data.prepare.features",
          KEY("data.prepare.user_features", prepare.features,
              "columns of the user table that become input features, by name or index, e.g. [gender, age]")),
      KEY("data.prepare.item_features", prepare.item_features,
          "columns of the table of items that become features of items, e.g. [genres]; items of the table without train users become new items"),
      formerly(
          "data.prepare.new_items",
          KEY("data.prepare.new_item_fraction", prepare.new_items, below_one(),
              "fraction of the items, drawn by seed, whose train events are removed, so that they become the new items; 0: all items of the table without a train event")),
      KEY("data.prepare.feature_hashes", prepare.feature_hashes, between(1, 16),
          "number of hashes, and so of inputs set to 1, per value of such a column"),
      or_word(KEY("data.prepare.feature_buckets", prepare.feature_buckets, at_least(1),
                  "inputs per hash of a column; auto: its number of distinct values, at least 16"),
              "auto"),
      KEY("data.prepare.compression", prepare.compression, between(0, 9),
          "compression of the dataset: 0: none; 1 (fast) to 9 (small): shuffle and deflate"),
      or_word(
          KEY("data.prepare.memory_gib", prepare.memory_gib, positive(),
              "memory for events in GiB; more events go to a temporary file next to data.file; auto: half of the free memory"),
          "auto"),
      KEY("model.type", options.model.type, types_of_models()),
      KEY("model.hidden", options.model.hidden, widths(),
          "widths of the hidden layers of the encoder, mirrored in the decoder"),
      KEY("model.latent", options.model.latent, between<std::int64_t>(1, models::max_layer_width),
          "width of the latent layer"),
      KEY("model.dropout", options.model.dropout, below_one(),
          "probability of dropping an input item in training"),
      KEY("model.history_dropout", options.model.history_dropout, below_one(),
          "probability of dropping all input items of a user in training, so that the model learns to use features alone; "
          "recommended: 0.1 if the model serves users without interactions"),
      formerly("model.features",
               KEY("model.user_features", options.model.features,
                   "use user features as additional input; auto: if the dataset has features")),
      or_single(KEY(
          "model.low_rank.factors", options.model.low_rank.factors,
          list_of(between<std::int64_t>(0, models::max_layer_width)),
          "ease, item_knn: factors of the low-rank term; of several values the best on validation is used; 0: no term; try [256, 512]")),
      KEY("model.low_rank.weight", options.model.low_rank.weight, list_of(positive()),
          "weight alpha of the low-rank term; of several values the best is used; try [0.1, 0.2, 0.4, 0.8, 1.6, 2.4, 3.2]"),
      KEY("model.low_rank.power", options.model.low_rank.power, list_of(between(0.0, 1.0)),
          "exponent beta of the numbers of users of items in the low-rank term; of several values the best is used; try [0, 0.2, 0.4]"),
      KEY("model.low_rank.iterations", options.model.low_rank.iterations, at_least(1),
          "products with which the basis of the low-rank term is computed"),
      or_word(
          KEY("model.low_rank.keep", options.model.low_rank.keep, at_least(1),
              "weights of each item that remain of the sum of the low-rank term and neighbors; null: the factors are stored beside the neighbors; EASE of all items keeps all"),
          "null"),
  };
  for (const models::Kind* kind : models::all_kinds())
    for (const keys::Key<models::ModelOptions>& key : kind->keys())
      keys.push_back(within<Config>(
          key, [](auto& config) -> auto& { return config.options.model; }));
  const std::vector<Key> more = {
      KEY("train.epochs", options.train.epochs, at_least(1), "passes over the train users"),
      or_word(KEY("train.patience", options.train.patience, at_least(1),
                  "stop after this many validations without improvement"),
              "never"),
      KEY("train.last_batch", options.train.last_batch, "what to do with the short last batch of an epoch"),
      KEY("train.batch_size", options.train.batch_size, at_least(1), "users per step, summed over all ranks"),
      KEY("train.optimizer.type", options.optimizer.type, "optimizer"),
      KEY("train.optimizer.learning_rate", options.optimizer.learning_rate, fp32_positive(),
          "step size; not scaled with the number of ranks"),
      KEY("train.optimizer.beta1", options.optimizer.beta1, fp32_below_one(),
          "adam: decay of the first moment"),
      KEY("train.optimizer.beta2", options.optimizer.beta2, fp32_below_one(),
          "adam: decay of the second moment; rmsprop: decay of the mean square"),
      KEY("train.optimizer.epsilon", options.optimizer.epsilon, fp32_positive(),
          "adam, rmsprop: constant that keeps the divisor above 0"),
      KEY("train.optimizer.momentum", options.optimizer.momentum, fp32_below_one(), "rmsprop, sgd: momentum"),
      KEY("train.annealing.cap", options.train.annealing.cap, at_least(0.0),
          "upper bound of the KL weight: beta = min(cap, t / T)"),
      exclusive(KEY("train.annealing.steps", options.train.annealing.steps, positive(),
                    "T in updates; set exactly one of steps, epochs, users")),
      exclusive(or_word(
          KEY("train.annealing.epochs", options.train.annealing.epochs, positive(),
              "T in epochs: the same curve at any batch size; auto: 0.8 train.epochs / cap, with which beta reaches the cap after 0.8 of the epochs"),
          "auto", training::AnnealingOptions::automatic,
          [](auto& config) -> auto& { return config.options.train.annealing.epochs; })),
      exclusive(KEY("train.annealing.users", options.train.annealing.users, positive(), "T in users seen")),
      KEY("train.weight_decay", options.train.weight_decay, at_least(0.0),
          "lambda, as in PyTorch: lambda w is added to the gradient of a weight w, not of a bias; the loss contains lambda / 2 times the sum of squared weights"),
      or_word(
          KEY("train.clip_gradient_norm", options.train.clip_gradient_norm, between(1e-15, 1e15),
              "maximum gradient norm (mean over users, without weight decay); larger gradients are scaled down to it, "
              "which costs a pass over the gradient, and updates wait for all of it; null: no maximum"),
          "null"),
      KEY("train.precision", backend.precision,
          "precision of matrix products; auto: bf16 on CUDA and on CPUs with AMX, else fp32; bf16x3: three bf16 products instead of one in fp32; fp16, tf32 and bf16x3 need CUDA"),
      KEY("train.seed", options.train.seed,
          "random seed of initialization, dropout, latent noise and shuffling"),
      KEY("train.deterministic", backend.deterministic,
          "bitwise identical results on the same machines, ranks and threads, on GPUs too, at the cost of speed: "
          "no autotuning of matrix products, no sums that depend on timing, one NCCL algorithm"),
      formerly("validation.metrics", KEY("evaluation.metrics", options.validation.metrics, metric_list(),
                                         "metrics that validation and test report")),
      formerly(
          "validation.baselines",
          KEY("evaluation.baselines", options.validation.baselines, baseline_list(),
              "models to compare with in every test; auto: popularity, item_knn, and ease up to 10^12 operations per thread; "
              "ease chooses among model.ease.l2 on validation")),
      or_word(KEY("validation.every", options.validation.every, at_least(1), "epochs between validations"),
              "never"),
      KEY("validation.select", options.validation.select, selection(),
          "metric that selects best.h5: the smallest gini or mean_popularity, the largest of other metrics; last: always the last epoch"),
      as_path(KEY("run.directory", options.run.directory, not_empty(), "parent folder of the run folders")),
      exclusive(
          or_word(
              or_word(
                  KEY("run.checkpoint_every.epochs", options.run.checkpoint_every.epochs, at_least(1),
                      "epochs between checkpoints for --resume; short form: run.checkpoint_every: 1; "
                      "auto: after an epoch if writing takes less than a tenth of the time, and at the end; "
                      "never: none but the best"),
                  "never"),
              "auto", CheckpointEvery::automatic,
              [](auto& config) -> auto& { return config.options.run.checkpoint_every.epochs; }),
          true),
      exclusive(KEY("run.checkpoint_every.steps", options.run.checkpoint_every.steps, at_least(1),
                    "updates between checkpoints")),
      exclusive(KEY("run.checkpoint_every.minutes", options.run.checkpoint_every.minutes, positive(),
                    "minutes between checkpoints, if an epoch takes less time than writing a checkpoint")),
      formerly("run.keep", KEY("run.keep_checkpoints", options.run.keep, at_least(1),
                               "number of checkpoints to keep, the newest ones, in addition to best.h5")),
      KEY("run.retry_seconds", options.run.retry_seconds, at_least(0.0),
          "seconds for which the last checkpoint is attempted again if it cannot be written; 0: one attempt"),
      KEY("benchmark.seconds", options.benchmark.seconds, positive(),
          "duration of the timed steps of --benchmark; at most train.epochs epochs, at least 20 steps"),
      KEY("benchmark.warm_up_seconds", options.benchmark.warm_up_seconds, at_least(0.0),
          "duration of the warm-up before the timed steps; at most an epoch, at least 12 steps"),
      KEY("benchmark.evaluate", options.benchmark.evaluate, "also measure the ranking of held-out users"),
      KEY("device", backend.device, "compute device; auto: GPU if available"),
      KEY("backend.kernels", backend.kernels,
          "portable: plain loops on the CPU instead of library matrix products"),
      or_word(KEY("backend.threads", backend.threads, between(1, device::max_threads),
                  "threads per rank; auto: the available cores divided by the ranks of the host"),
              "auto"),
      KEY("backend.resident", backend.resident,
          "cuda: keep the train users in GPU memory; false: read them from host memory; auto: true if they fit"),
      KEY("backend.cuda_graph", backend.cuda_graph,
          "cuda: capture a step as a CUDA graph and replay it; auto: if possible"),
      KEY("distributed.strategy", options.distributed.strategy,
          "how ranks synchronize; parameter_server (experimental): the last ranks store the weights for the others (CPU only)"),
      KEY("distributed.algorithm", options.distributed.algorithm,
          "all-reduce algorithm between GPUs; auto: chosen by NCCL; over MPI it is always a ring"),
      formerly("distributed.optimizer",
               KEY("distributed.optimizer_state", options.distributed.optimizer,
                   "sharded: each rank updates one shard of the weights and stores only its moments")),
      KEY("distributed.comm_dtype", options.distributed.comm_dtype,
          "data type for communication: of gradients, and of weights if the optimizer is sharded or servers store them"),
      or_word(KEY("distributed.bucket_mib", options.distributed.bucket_mib,
                  between(comm::min_bucket_mib, comm::max_bucket_mib),
                  "size of the buckets in which gradients are reduced, in MiB; "
                  "auto: 4 over MPI, 32 between the GPUs of a host, 64 between those of several hosts"),
              "auto"),
      or_word(
          or_word(
              KEY("distributed.item_slices", options.distributed.item_slices, at_least(1),
                  "ranks that share the items between them, each with an item slice of the large tables; "
                  "ranks / item_slices model-parallel groups share the users; all: as many as ranks; auto: by the bytes that a step sends"),
              "all", comm::all_item_slices, item_slices_of),
          "auto", comm::automatic_item_slices, item_slices_of),
      KEY("distributed.overlap", options.distributed.overlap,
          "overlap the reduction with the backward pass; auto: true for GPUs; "
          "true over MPI: messages are posted early, and each rank sums its own part instead of a ring"),
      formerly("distributed.servers",
               KEY("distributed.parameter_server.servers", options.distributed.servers, at_least(1),
                   "parameter_server: number of servers, the last ranks; the others are workers")),
      formerly("distributed.updates",
               KEY("distributed.parameter_server.updates", options.distributed.updates,
                   "parameter_server: synchronous: one update per step, as with all-reduce; "
                   "asynchronous: one update per gradient of a worker, on arrival")),
      formerly("distributed.staleness",
               KEY("distributed.parameter_server.staleness", options.distributed.staleness, at_least(0),
                   "asynchronous: number of steps that a worker may be ahead of the slowest one")),
      KEY("distributed.allow_shared_gpu", backend.allow_shared_gpu,
          "let several ranks share a GPU, for tests; timings are then meaningless"),
      formerly("distributed.stall_warning",
               KEY("watchdog.warning_seconds", options.distributed.stall_warning, positive(),
                   "seconds without progress after which the stalled rank is reported")),
      formerly("distributed.timeout",
               KEY("watchdog.timeout_seconds", options.distributed.timeout, positive(),
                   "seconds without progress or heartbeat after which the run is aborted")),
      formerly("distributed.startup_timeout",
               KEY("watchdog.startup_timeout_seconds", options.distributed.startup_timeout, positive(),
                   "timeout while ranks connect, set up and load, in seconds")),
      formerly("distributed.validation_timeout",
               KEY("watchdog.evaluation_timeout_seconds", options.distributed.validation_timeout, positive(),
                   "timeout in validation, test, benchmark and checkpoint writing, in seconds")),
  };
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace vaecf::config
