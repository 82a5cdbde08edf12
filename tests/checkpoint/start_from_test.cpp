#include <vaecf/checkpoint/start_point.hpp>

#include <algorithm>
#include <numeric>

#include "checkpoint/known_users.hpp"
#include "checkpoint/resume_fixture.hpp"
#include "models/elsa/elsa.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::training {
namespace {

/// The items of the second dataset, by id, with their indices in the first one; -1: new.
const io::IdList old_ids = {{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112}, {}};
const io::IdList new_ids = {{}, {"112", "x", "103", "100", "0103", "111", "108", "7", "105"}};
const std::vector<std::int64_t> sources = {12, -1, 3, 0, -1, 11, 8, -1, 5};

class StartFrom : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    options_.model = {ModelType::mult_vae, {20}, 6};
    options_.validation.every = 0;
    options_.train.epochs = 2;
    options_.run.checkpoint_every = {};
  }

  std::string make_items(const std::string& name, std::int64_t items, const io::IdList& ids,
                         bool features = false, bool weighted = false) const {
    return make(name, {.users = 80,
                       .items = items,
                       .tastes = 3,
                       .validation = 0,
                       .test = 0,
                       .features = features,
                       .weighted = weighted,
                       .item_ids = ids});
  }

  /// Trains on the first dataset, and selects its checkpoint and the second dataset. Returns its weights.
  Tensors train_first(bool features = false) {
    options_.data.file = make_items("old.h5", 13, old_ids, features);
    state_.start_from.clear();
    run(1, "old");
    state_.start_from = checkpoints("old") + "/best.h5";
    options_.data.file = make_items("new.h5", 9, new_ids, features);
    return tensors_in(state_.start_from);
  }

  /// The state of a new run on some ranks.
  struct Started {
    Tensors initial, weights, first_moment, second_moment, prior;
  };
  Started start(int ranks) const {
    const std::vector<Started> all = of_ranks(ranks, [&](const run::Run& run) {
      Trainer trainer(run, run.options, run.dataset, 0);
      Started started;
      started.initial = read_all(trainer, StateTensor::weights);
      checkpoint::StartPoint(run, run.options.model, run.dataset, run.start_from).load_weights(trainer);
      started.weights = read_all(trainer, StateTensor::weights);
      started.first_moment = read_all(trainer, StateTensor::first_moment);
      started.second_moment = read_all(trainer, StateTensor::second_moment);
      const Range prior = trainer.facts().prior_tensors;
      if (prior.size() > 0) {
        trainer.start_epoch(0);
        const Tensors values = read_all(trainer, StateTensor::prior);
        const std::vector<device::TensorSpec> specs = trainer.model().tensors();
        for (std::int64_t t = prior.begin; t < prior.end; ++t) {
          const std::string& name = specs[static_cast<std::size_t>(t)].name;
          started.prior[name] = values.at(name);
        }
      }
      EXPECT_EQ(trainer.updates_done(), 0);
      return started;
    });
    for (const Started& one : all) EXPECT_EQ(one.weights, all[0].weights);
    return all[0];
  }

  /// Returns the weights of a run that starts from `before`, a model of `items_before` items, by tensor:
  /// item i has those of item `from[i]` there, or if that is -1, the initial ones.
  Tensors started_from(const Tensors& before, std::int64_t items_before,
                       const std::vector<std::int64_t>& from, const Tensors& initial) const {
    Tensors all;
    const std::int64_t items = std::ssize(from);
    for (const device::TensorSpec& spec : models::tensor_specs(options_.model, {items, 0})) {
      const std::int64_t columns_before = spec.columns == items ? items_before : spec.columns;
      std::vector<float>& expected = all[spec.name] = initial.at(spec.name);
      EXPECT_EQ(std::ssize(expected), spec.rows * spec.columns);
      for (std::int64_t r = 0; r < spec.rows; ++r) {
        for (std::int64_t c = 0; c < spec.columns; ++c) {
          const std::int64_t row = spec.rows == items ? from[static_cast<std::size_t>(r)] : r;
          const std::int64_t column = spec.columns == items ? from[static_cast<std::size_t>(c)] : c;
          if (row < 0 || column < 0) continue;
          expected[static_cast<std::size_t>(r * spec.columns + c)] =
              before.at("weights/" + spec.name)[static_cast<std::size_t>(row * columns_before + column)];
        }
      }
    }
    return all;
  }

  /// Calls use() with small options of each model that is trained, and first with those of a deeper network.
  template <class Use>
  void for_each_model(const Use& use) {
    options_.model = {ModelType::mult_vae, {20, 7}, 6};
    use();
    testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
      options_.model = {kind.type(), {20}, 6};
      own_options<models::ElsaOptions>(options_.model).factors = 11;
      use();
    });
  }
};

TEST_F(StartFrom, ItemsAreMatchedByIdOnAnyNumberOfRanksAndMomentsAreZero) {
  for_each_model([&] {
    const models::ModelOptions& model = options_.model;
    const Tensors before = train_first();
    const Started now = start(1);
    for (const auto& [name, expected] : started_from(before, 13, sources, now.initial))
      EXPECT_EQ(now.weights.at(name), expected) << name;
    const auto by_item = std::ranges::count_if(models::tensor_specs(model, {9, 0}), [](const auto& spec) {
      return spec.rows == 9 || spec.columns == 9;
    });
    EXPECT_GT(by_item, 0);
    EXPECT_EQ(start(3).weights, now.weights);
    options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
    EXPECT_EQ(start(2).weights, now.weights);
    options_.distributed.optimizer = comm::OptimizerPlacement::replicated;

    options_.data.file = file("old.h5");
    const Started same = start(3);
    for (const auto& [name, values] : same.weights) {
      EXPECT_EQ(values, before.at("weights/" + name)) << name;
      EXPECT_NE(values, same.initial.at(name)) << name;
      for (const Tensors* moments : {&same.first_moment, &same.second_moment})
        EXPECT_EQ(std::ranges::count(moments->at(name), 0.0F), std::ssize(values)) << name;
    }
    for (const auto& [name, values] : same.prior) EXPECT_EQ(values, same.weights.at(name)) << name;
    std::filesystem::remove_all(folder("old"));
  });
}

TEST_F(StartFrom, AsManyItemsInAnotherOrderAreMatchedById) {
  const Tensors before = train_first();
  const std::int64_t items = old_ids.size();
  // The same items the other way round, and another one in place of one of them.
  io::IdList ids = old_ids;
  std::ranges::reverse(ids.numbers);
  ids.numbers[4] = 7;
  std::vector<std::int64_t> from(static_cast<std::size_t>(items));
  std::iota(from.rbegin(), from.rend(), 0);
  from[4] = -1;
  options_.data.file = make(
      "other.h5", {.users = 90, .items = items, .tastes = 3, .validation = 0, .test = 0, .item_ids = ids});
  for (const int ranks : {1, 2}) {
    const Started now = start(ranks);
    for (const auto& [name, expected] : started_from(before, items, from, now.initial)) {
      EXPECT_EQ(now.weights.at(name), expected) << name;
      EXPECT_EQ(expected == before.at("weights/" + name),
                !name.starts_with("encoder_1/weight") && !name.starts_with("decoder_2/"))
          << name;
    }
  }
}

TEST_F(StartFrom, WeightsOfFeaturesAreNotMatchedByItem) {
  const Tensors before = train_first(true);
  const Started now = start(2);
  EXPECT_NE(now.weights.at("encoder_1/weight"), now.initial.at("encoder_1/weight"));
  EXPECT_NE(now.weights.at("encoder_1/feature_weight"), now.initial.at("encoder_1/feature_weight"));
  EXPECT_EQ(now.weights.at("encoder_1/feature_weight"), before.at("weights/encoder_1/feature_weight"));
}

TEST_F(StartFrom, WarnsIfOneOfTheDatasetsHasNoWeights) {
  for (const bool before : {false, true}) {
    options_.data.file = make_items("old.h5", 13, old_ids, false, before);
    state_.start_from.clear();
    run(1, "old");
    state_.start_from = checkpoints("old") + "/best.h5";
    EXPECT_EQ(io::CheckpointFile(state_.start_from).attributes().contains("interaction_weights"), before);
    for (const bool now : {false, true}) {
      SCOPED_TRACE(::testing::Message() << before << " " << now);
      options_.data.file = make_items("new.h5", 9, new_ids, false, now);
      ::testing::internal::CaptureStderr();
      on_ranks(2, [&](const run::Run& run) {
        Log log(Verbosity::quiet, run.communicator.rank() == 0);
        const run::Run mine = run_of({run.communicator, run.device, log, run.progress});
        Trainer trainer(mine, mine.options, mine.dataset, 0);
        checkpoint::StartPoint(mine, mine.options.model, mine.dataset, mine.start_from).load_weights(trainer);
      });
      const std::string text = ::testing::internal::GetCapturedStderr();
      const std::string warning =
          before ? "was trained with interaction weights, but " + file("new.h5") + " has none"
                 : "was trained without interaction weights, but " + file("new.h5") + " has them";
      EXPECT_EQ(text.find("interaction weights") != std::string::npos, before != now) << text;
      EXPECT_EQ(text.find(warning) != std::string::npos, before != now) << text;
    }
    std::filesystem::remove_all(folder("old"));
  }
}

TEST_F(StartFrom, RunCountsEpochsFromTheBeginningAndResumes) {
  const Tensors before = train_first();
  EXPECT_EQ(run(2, "new", "", 1).steps, 1);
  const run::TrainResult result = run(2, "new", "auto");
  EXPECT_EQ(result.epochs, 2);
  EXPECT_EQ(result.steps, 6);
  run(2, "whole");
  expect_same_as_whole("new");
  const io::CheckpointFile last(checkpoints("new") + "/best.h5");
  EXPECT_EQ(last.attribute<std::int64_t>("best_epoch"), 2);
  EXPECT_EQ(last.dataset().item_ids.strings, new_ids.strings);
}

// The values were computed by an independent implementation of XXH64.
TEST_F(StartFrom, HashesOfUsersAreSortedAndHave32Bits) {
  EXPECT_EQ(checkpoint::hash_users({{1, 12345}, {}}), (std::vector<std::uint32_t>{0x0ad64fb6, 0x360564d4}));
  EXPECT_EQ(checkpoint::hash_users({{}, {"ann", "1"}}), (std::vector<std::uint32_t>{0x360564d4, 0x40346ebe}));
}

// 30,000 held-out users and 286,332 hashes: 2 users have one of the hashes by chance.
TEST_F(StartFrom, FewEqualHashesOfManyUsersAreChance) {
  io::IdList held_out;
  for (std::int64_t user = 0; user < 30'000; ++user) held_out.numbers.push_back(1'000'000 + user);
  for (const std::string split : {"random", "time"}) {
    io::DatasetWriter writer(file(split + ".h5"), 0);
    writer.append_row("train", std::vector<std::int32_t>{0});
    for (const char* const part : {"validation", "test"}) {
      for (std::int64_t row = 0; row < (part == std::string("test") ? 2 : held_out.size()); ++row) {
        writer.append_row(std::string(part) + "/fold_in", {});
        writer.append_row(std::string(part) + "/held_out", {});
      }
    }
    writer.write_ids("train/user_id", {{5}, {}});
    writer.write_ids("validation/user_id", held_out);
    writer.write_ids("test/user_id", {{5, 6}, {}});
    writer.set_attribute("items", std::int64_t{1});
    writer.set_attribute("split", split);
    writer.commit();
  }
  const auto known = [&](std::vector<std::uint32_t> hashes, const std::string& split = "random") {
    std::ranges::sort(hashes);
    const io::DatasetSummary summary{{{1}, {}}, {}, {1}, std::move(hashes)};
    io::write_checkpoint(file("c.h5"), {{"items", std::int64_t{1}}}, {}, {}, &summary);
    return checkpoint::find_known_users(io::CheckpointFile(file("c.h5")),
                                        io::DatasetFile(file(split + ".h5")));
  };
  std::vector<std::uint32_t> hashes;
  for (std::uint64_t hash = 0; hash < (std::uint64_t{1} << 32); hash += 15'000)
    hashes.push_back(static_cast<std::uint32_t>(hash));
  checkpoint::KnownUsers found = known(hashes);
  EXPECT_LE(found.validation, 9) << "2 + 5 x 1.4";
  EXPECT_TRUE(found.by_chance);
  const auto train_users = checkpoint::hash_users({{1'000'000, 1'000'001, 1'000'002, 5, 6, 1'029'999}, {}});
  const std::int64_t chance = found.validation;
  found = known(train_users);
  EXPECT_EQ(found.validation, 4);
  EXPECT_EQ(found.test, 1) << "5 is also a train user of this dataset";
  EXPECT_FALSE(found.by_chance);
  EXPECT_TRUE(known(train_users, "time").by_chance) << "their older events precede those that are held out";
  const auto many = checkpoint::hash_users({{held_out.numbers.begin(), held_out.numbers.begin() + 20}, {}});
  hashes.insert(hashes.end(), many.begin(), many.end());
  found = known(hashes);
  EXPECT_EQ(found.validation, chance + 20);
  EXPECT_FALSE(found.by_chance);
  EXPECT_TRUE(known({}).by_chance);
}

TEST_F(StartFrom, ChecksTheModelOnAllRanksBeforeAnyWork) {
  train_first();
  const auto contains = [&](const std::string& part, int ranks = 1) {
    on_ranks(ranks, [&](const run::Run& run) {
      expect_error<InputError>(
          {part}, [&] { checkpoint::validate_start(run, run.options.model, run.dataset, run.start_from); });
    });
  };
  const models::ModelOptions model = options_.model;
  options_.model.type = ModelType::mult_dae;
  contains("contains a model of type mult_vae, but model.type is mult_dae", 3);
  options_.model.type = ModelType::ease;
  contains("a model of type ease is solved at once, so that nothing is to be started from");
  options_.model = model;
  options_.model.latent = 5;
  contains("must have shape (5, 20), got (6, 20); the checkpoint contains a model of type mult_vae", 3);
  options_.model.latent = 6;
  options_.model.hidden = {20, 8};
  contains("with hidden layers [20] and latent 6");
  options_.model = model;
  options_.data.file = make("features.h5", {.features = true});
  contains("no user features");
  options_.data.file = make_items("others.h5", 3, {{1, 2, 3}, {}});
  contains("none of its 13 items is in");
  options_.data.file = file("new.h5");
}

}  // namespace
}  // namespace vaecf::training
