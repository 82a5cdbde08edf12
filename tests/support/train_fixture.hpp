#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/checkpoint_manager.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/item_slices.hpp>
#include <vaecf/run/previous_run.hpp>
#include <vaecf/run/recommender.hpp>
#include <vaecf/run/test.hpp>
#include <vaecf/run/train.hpp>
#include <vaecf/run/validate.hpp>
#include <vaecf/training/trainer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/messages.hpp"
#include "support/run_on_ranks.hpp"
#include "support/temporary_folder.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::training {

using models::ModelType;

/// A dataset whose users have one of `tastes` tastes: user u has `likes` of the items i with
/// i mod tastes == u mod tastes, and one arbitrary item. All but two items of held-out users are in the
/// fold-in.
struct MadeUpData {
  std::int64_t users = 203;
  std::int64_t items = 60;
  std::int64_t tastes = 5;
  std::int64_t likes = 6;
  std::int64_t validation = 31;
  std::int64_t test = 20;
  std::int64_t without_target = 0;   ///< of the validation users, and of the last test users
  std::int64_t without_history = 0;  ///< of the test users
  bool noise = true;
  bool features = false;  ///< columns that determine the taste of a user, and uninformative ones; some users
                          ///< have none
  bool weighted = false;  ///< train users and fold-in have weights with a mean of 1 per user
  io::IdList item_ids = {};
};

inline void write_dataset(const std::string& path, const MadeUpData& data) {
  std::mt19937 random(17);
  using Row = std::vector<std::int32_t>;
  const auto draw = [&](std::int64_t user) {
    Row liked;
    for (std::int64_t i = user % data.tastes; i < data.items; i += data.tastes) {
      liked.push_back(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = liked.size() - 1; i > 0; --i) std::swap(liked[i], liked[random() % (i + 1)]);
    liked.resize(std::min(liked.size(), static_cast<std::size_t>(data.likes)));
    return liked;
  };
  const auto sorted = [](Row row) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    return row;
  };
  const auto features_of = [&](std::int64_t user) {
    if (user % 11 == 10) return Row{};
    const auto taste = user % data.tastes;
    return Row{static_cast<std::int32_t>(taste), static_cast<std::int32_t>(data.tastes + user % 3)};
  };
  io::DatasetWriter writer(path, 0);
  const auto append = [&](const std::string& matrix, const Row& row) {
    std::vector<float> weights;
    float sum = 0.0F;
    for (const std::int32_t item : row) sum += weights.emplace_back(1.0F + static_cast<float>(item % 7));
    for (float& weight : weights) weight *= static_cast<float>(row.size()) / sum;
    writer.append_row(matrix, data.weighted ? SparseRow{row, weights} : SparseRow(row));
  };
  for (std::int64_t u = 0; u < data.users; ++u) {
    Row row = draw(u);
    if (data.noise)
      row.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(data.items)));
    append("train", sorted(row));
    if (data.features) writer.append_row("train/user_features", features_of(u));
  }
  for (const std::string split : {"validation", "test"}) {
    const std::int64_t count = split == "test" ? data.test : data.validation;
    for (std::int64_t u = 0; u < count; ++u) {
      const Row row = draw(u);
      const bool target = split == "test" ? u < count - data.without_target : u >= data.without_target;
      const bool history = split == "validation" || u >= data.without_history;
      append(split + "/fold_in", history ? sorted({row.begin() + 2, row.end()}) : Row{});
      writer.append_row(split + "/held_out", target ? sorted({row[0], row[1]}) : Row{});
      if (data.features) writer.append_row(split + "/user_features", features_of(u));
    }
  }
  writer.set_attribute("name", std::string("made up"));
  writer.set_attribute("source", std::string("made up"));
  writer.set_attribute("users", data.users + data.validation + data.test);
  writer.set_attribute("items", data.items);
  if (data.weighted) writer.set_attribute("interaction_weights", std::string("log1p"));
  if (data.item_ids.size() > 0) writer.write_ids("items/id", data.item_ids);
  if (data.features) {
    writer.set_attribute("user_features", data.tastes + 3);
    writer.set_attribute("feature_hashing", std::string("by hand\ntaste, and what tells nothing"));
  }
  writer.commit();
}

/// Runs all steps of epochs [0, epochs); calls `done` after each.
inline void train_epochs(
    Trainer& trainer, std::int64_t epochs, const std::function<void()>& done = [] {}) {
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    trainer.start_epoch(epoch);
    for (std::int64_t t = 0; t < trainer.steps_per_epoch(); ++t) trainer.step(t);
    done();
  }
}

/// Calls functions when a run reports its progress: `on_update` in phases whose title contains `title`.
struct Hooks : Progress {
  void begin(std::string_view label, std::int64_t, std::string_view, std::int64_t) override {
    counts_ = label.find(title) != std::string_view::npos;
  }
  void update(std::int64_t) override {
    if (counts_) on_update();
  }
  void end() override { on_end(); }

  std::string title = "epoch";
  std::function<void()> on_update = [] {};
  std::function<void()> on_end = [] {};

 private:
  bool counts_ = false;
};

/// Requests a stop after the given number of updates.
struct StopsAfter : Hooks {
  StopsAfter(StopFlag& flag, int updates, const std::string& of_title = "epoch") {
    title = of_title;
    on_update = [&flag, updates]() mutable {
      if (--updates == 0) flag.request();
    };
  }
};

/// Tensors by name, without padding.
using Tensors = std::map<std::string, std::vector<float>>;

/// Provides a temporary folder with a dataset, and options for a small model.
class TrainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.name = "made_up";
    options_.data.file = make("data.h5", {});
    options_.model = {ModelType::mult_vae, {20}, 6, 0.5};
    options_.train.epochs = 3;
    options_.train.batch_size = 37;
    options_.train.annealing = {0.2, 40, 0, 0};
    options_.validation.metrics = {"ndcg@10", "recall@5"};
    options_.validation.select = "ndcg@10";
    options_.run.directory = file("runs");
    options_.run.retry_seconds = 0.0;
    options_.distributed.bucket_mib = 0.001;  // many buckets even for a small model
    state_.configuration_text = "name: made_up\n";
    state_.version = "0";
  }

  /// Sets keys of the configuration, each "key=value".
  void set(const std::vector<std::string>& keys) {
    const config::Config changed = config::parse(config::dump({options_, {}, {}, backend_}), "test", keys);
    options_ = changed.options;
    backend_ = changed.backend;
  }

  checkpoint::RunFolder run_folder() const { return {options_.run_folder()}; }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string make(const std::string& name, const MadeUpData& data) const {
    write_dataset(file(name), data);
    return file(name);
  }

  /// Returns a run of `options` or options_, with its dataset.
  run::Run run_of(const Context& context, const config::TrainingConfig& options) const {
    return {context, state_, options, io::DatasetFile(options.data.file)};
  }
  run::Run run_of(const Context& context) const { return run_of(context, options_); }
  /// Returns `run` with another progress, and a request to stop.
  static run::Run with(run::Run run, Progress& progress, const StopFlag* stop = nullptr) {
    return {{run.communicator, run.device, run.log, progress, stop, run.grid}, run, run.options, run.dataset};
  }

  /// Calls `body` with a run of options_ on thread ranks, each with its own device. If options_ selects item
  /// slices, model-parallel groups of that many ranks share the items.
  void on_ranks(int ranks, const std::function<void(const run::Run&)>& body) const {
    run_on_ranks(ranks, backend_, [&](const Context& context) {
      Context divided = context;
      const auto item_slices = static_cast<int>(options_.distributed.item_slices);
      if (item_slices > 1) divided.grid = run::divide_ranks(context.communicator, item_slices);
      body(run_of(divided));
    });
  }

  /// Calls `body` with a run of options_ on thread ranks, each with the device that `make(rank)` returns.
  template <class Make, class Body>
  void on_devices(int ranks, Make&& make, Body&& body) const {
    comm::run_ranks(ranks, [&](comm::Communicator& communicator) {
      auto device = make(communicator.rank());
      Log log;
      Progress progress;
      body(run_of({communicator, device, log, progress}));
    });
  }

  /// Returns the results of `body` on all ranks.
  template <class Body>
  auto of_ranks(int ranks, Body&& body) const {
    std::vector<decltype(body(std::declval<const run::Run&>()))> results(static_cast<std::size_t>(ranks));
    on_ranks(ranks, [&](const run::Run& run) {
      results[static_cast<std::size_t>(run.communicator.rank())] = body(run);
    });
    return results;
  }

  /// Trains as the program does, in a folder whose previous run is moved unless this one continues it.
  static run::TrainResult train(run::Run run) {
    run::move_previous_run(run);
    return vaecf::run::train(run);
  }

  /// Trains on `ranks` ranks, whose results must be equal.
  run::TrainResult train_on(int ranks,
                            const std::function<run::TrainResult(const run::Run&)>& body = train) const {
    const std::vector<run::TrainResult> results = of_ranks(ranks, body);
    for (const run::TrainResult& result : results) {
      EXPECT_EQ(result.stopped, results[0].stopped);
      EXPECT_EQ(result.epochs, results[0].epochs);
      EXPECT_EQ(result.steps, results[0].steps);
      EXPECT_EQ(result.best_epoch, results[0].best_epoch);
      EXPECT_EQ(result.best_metric, results[0].best_metric);
    }
    return results[0];
  }
  /// Tests the best or the given checkpoint.
  run::TestResult test_on(int ranks, const std::string& checkpoint = "") const {
    const std::string path = checkpoint.empty() ? run_folder().best() : checkpoint;
    const auto results = of_ranks(ranks, [&](const run::Run& run) { return test(run, path); });
    for (const run::TestResult& result : results)
      for (const auto& [name, value] : result.model.metrics)
        EXPECT_EQ(value.mean, results[0].model.metrics.at(name).mean) << name;
    return results[0];
  }

  /// The lists of recommend, (users, length).
  struct Lists {
    std::vector<std::int32_t> items;
    std::vector<float> scores;
  };
  Lists recommend(const run::Run& run, const std::string& checkpoint, const run::RecommendOptions& choice,
                  CsrView seen, CsrView features = {}) const {
    const run::Recommender recommender(options_, run, io::CheckpointFile(checkpoint), false);
    const auto size = static_cast<std::size_t>(seen.rows() * recommender.list_length(choice));
    Lists lists{std::vector<std::int32_t>(size), std::vector<float>(size)};
    recommender.recommend({choice, seen, features}, lists.items, lists.scores);
    return lists;
  }

  /// Calls `body` on each rank with the run, a trainer, and the manager of checkpoints of a new run.
  template <class Body>
  void with_manager(int ranks, Body&& body) const {
    on_ranks(ranks, [&](const run::Run& run) {
      std::optional<checkpoint::RunLog> log;
      if (run.communicator.rank() == 0) log.emplace(run, run.folder(), checkpoint::RunLog::Mode::train);
      run.communicator.barrier();
      if (!log) log.emplace(run, run.folder(), checkpoint::RunLog::Mode::append);
      Trainer trainer(run, run.options, run.dataset, 0);
      checkpoint::CheckpointManager manager(run, run.folder(), trainer.steps_per_epoch(), *log);
      body(run, trainer, manager);
    });
  }

  /// Returns the names of the checkpoints in a folder.
  static std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> found;
    for (const auto& candidate : io::list_checkpoints(folder)) {
      found.push_back(std::filesystem::path(candidate.path).filename().string());
    }
    return found;
  }

  /// Returns the names of the checkpoints of the run.
  std::vector<std::string> names() const { return names_in(run_folder().checkpoints()); }

  static std::string text_of(const std::string& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// Returns the log of events of the run.
  std::string log_text() const { return text_of(run_folder().log()); }
  /// Returns the events of a kind in the log of the run in `folder`.
  static std::vector<io::Json> events_in(const std::string& folder, const std::string& kind) {
    std::vector<io::Json> events = io::read_json_lines(folder + "/metrics.jsonl");
    std::erase_if(events, [&](const io::Json& event) { return io::get_string(event, "event") != kind; });
    return events;
  }
  std::vector<io::Json> events(const std::string& kind) const {
    return events_in(options_.run_folder(), kind);
  }
  /// Returns the tensors of a checkpoint.
  static Tensors tensors_in(const std::string& path) {
    const io::CheckpointFile checkpoint(path);
    Tensors tensors;
    for (const auto& info : checkpoint.tensors()) {
      std::vector<float>& values = tensors[info.name];
      values.resize(static_cast<std::size_t>(info.rows * info.columns));
      checkpoint.read_rows(info.name, 0, info.rows, values);
    }
    return tensors;
  }
  /// Returns an attribute of the best checkpoint.
  template <class T>
  T of_best(const std::string& attribute) const {
    return io::CheckpointFile(run_folder().best()).attribute<T>(attribute);
  }

  testing::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
  config::TrainingConfig options_;
  run::RunState state_;
  device::BackendOptions backend_ = {device::DeviceChoice::cpu, device::Precision::fp32,
                                     device::Kernels::portable, 1};
};

/// Returns the weights that the model computes with.
inline Tensors weights_of(const models::Model& model) {
  Tensors tensors;
  const std::vector<device::TensorSpec> specs = model.tensors();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::vector<float>& values = tensors[specs[i].name];
    values.resize(static_cast<std::size_t>(specs[i].rows * specs[i].columns));
    model.read_rows(static_cast<int>(i), {0, specs[i].rows}, values);
  }
  return tensors;
}

/// Returns master weights or moments of a training. Collective.
inline Tensors read_all(Trainer& trainer, StateTensor state) {
  Tensors tensors = weights_of(trainer.model());
  const auto copy = trainer.make_state_copy(false);
  trainer.copy_state(copy.get());
  int tensor = 0;
  for (const device::TensorSpec& spec : trainer.model().tensors())
    copy->read_rows(state, tensor++, {0, spec.rows}, tensors[spec.name]);
  return tensors;
}

/// Makes the network of a run with initial weights for up to `max_users` users.
inline std::unique_ptr<models::Model> initial_model(const run::Run& run, std::int64_t max_users,
                                                    std::uint64_t seed = 1) {
  const models::ModelOptions& options = run.options.model;
  auto model = models::trained_kind_of(options.type)
                   .make(options, models::input_dims(options, run.dataset), run.device, max_users);
  model->initialize(seed);
  return model;
}

struct Difference {
  double relative = 0.0;  ///< the worst tensor's ||a - b|| / ||a||
  double largest = 0.0;   ///< the worst element's |a - b|
};

inline Difference difference(const Tensors& a, const Tensors& b) {
  Difference worst;
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    const std::vector<float>& others = b.at(name);
    double sum = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double d = static_cast<double>(values[i]) - static_cast<double>(others[i]);
      sum += d * d;
      size += static_cast<double>(values[i]) * values[i];
      worst.largest = std::max(worst.largest, std::abs(d));
    }
    if (sum > 0.0) worst.relative = std::max(worst.relative, std::sqrt(sum / size));
  }
  return worst;
}

}  // namespace vaecf::training
