// Items without train users: they are ranked apart, and everything else is as if they did not exist.

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/evaluate/popularity.hpp>
#include <vaecf/models/kind.hpp>

#include <array>
#include <numeric>

#include "models/ease/ease_values.hpp"
#include "models/elsa/elsa.hpp"
#include "support/for_each_kind.hpp"
#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

constexpr std::int32_t known_items = 50;  // items with users; those behind them are new
constexpr std::int32_t all_items = 60;
constexpr std::int64_t test_users = 24;

/// Returns the new items that test user `u` has among the targets: every third user has none.
std::vector<std::int32_t> new_targets_of(std::int64_t u) {
  const auto taste = static_cast<std::int32_t>(u % 5);
  if (u % 3 == 0) return {};
  if (u % 3 == 1) return {known_items + taste};
  return {known_items + taste, known_items + 5 + taste};
}

class NewItems : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    write("with.h5", true);
    write("without.h5", false);
    options_.data.file = file("with.h5");
    options_.model.type = ModelType::ease;
    own_options<models::EaseOptions>(options_.model) = {.l2 = {20.0}, .feature_weight = {100.0}};
    options_.validation.metrics = {"ndcg@10", "recall@3", "mean_popularity@10", "coverage@10", "gini@5"};
  }

  /// Writes users with tastes u mod 5 for items i mod 5. The taste is also the feature of an item. Without
  /// new items, the dataset has neither these nor features. With `in_histories`, a user with a history also
  /// has a new item of another taste in it.
  void write(const std::string& name, bool with_new_items, bool in_histories = false) const {
    std::mt19937 random(5);
    const auto draw = [&](std::int64_t user) {
      std::vector<std::int32_t> liked;
      for (auto i = static_cast<std::int32_t>(user % 5); i < known_items; i += 5) liked.push_back(i);
      std::ranges::shuffle(liked, random);
      liked.resize(6);
      return liked;
    };
    const auto sorted = [](std::vector<std::int32_t> row) {
      std::ranges::sort(row);
      return row;
    };
    io::DatasetWriter writer(file(name));
    for (std::int64_t u = 0; u < 100; ++u) writer.append_row("train", sorted(draw(u)));
    for (const std::string split : {"validation", "test"}) {
      for (std::int64_t u = 0; u < test_users; ++u) {
        const std::vector<std::int32_t> row = draw(u);
        // User 2 has no history, user 4 only new targets.
        std::vector<std::int32_t> history;
        if (u != 2) history = sorted({row.begin() + 2, row.end()});
        if (u != 2 && in_histories) history.push_back(static_cast<std::int32_t>(known_items + (u + 1) % 5));
        writer.append_row(split + "/fold_in", history);
        std::vector<std::int32_t> targets;
        if (u != 4) targets = sorted({row[0], row[1]});
        const std::vector<std::int32_t> behind = new_targets_of(u);
        if (with_new_items) targets.insert(targets.end(), behind.begin(), behind.end());
        writer.append_row(split + "/held_out", targets);
      }
    }
    writer.set_attribute("users", std::int64_t{100 + 2 * test_users});
    writer.set_attribute("items", std::int64_t{with_new_items ? all_items : known_items});
    if (with_new_items) {
      for (std::int32_t item = 0; item < all_items; ++item)
        writer.append_row("items/features", std::array{item % 5});
      writer.set_attribute("item_features", std::int64_t{5});
      writer.set_attribute("new_items", std::int64_t{all_items - known_items});
    }
    writer.commit();
  }
};

/// Makes a model with initial weights, of which this rank has its item slice.
std::unique_ptr<models::TrainableModel> make_initial(const run::Run& run) {
  const models::InputDims inputs = models::input_dims(run.options.model, run.dataset, run.model_parallel());
  auto model = models::trained_kind_of(run.options.model.type).make(run.options.model, inputs, run.device, 8);
  model->initialize(1);
  return model;
}

void expect_equal(const evaluate::EvaluationResult& result, const evaluate::EvaluationResult& expected) {
  EXPECT_EQ(result.users, expected.users);
  EXPECT_EQ(result.users_without_target, expected.users_without_target);
  ASSERT_EQ(result.metrics.size(), expected.metrics.size());
  for (const auto& [name, value] : expected.metrics) {
    EXPECT_EQ(result.metrics.at(name).mean, value.mean) << name;
    EXPECT_EQ(result.metrics.at(name).standard_error, value.standard_error) << name;
  }
}

TEST_F(NewItems, MetricsOfTheOthersAreThoseOfADatasetWithoutNewItems) {
  own_options<models::EaseOptions>(options_.model).feature_weight = {0.0};
  const auto select = [&](const std::string& name) {
    options_.data.file = file(name + ".h5");
    options_.name = name;
  };
  for (const std::string name : {"without", "with"}) {
    select(name);
    train_on(2);
  }
  for (const int ranks : {1, 2, 3, 4}) {
    select("without");
    const run::TestResult expected = test_on(ranks);
    EXPECT_EQ(expected.model.users_without_target, 1);
    EXPECT_FALSE(expected.model.new_items);
    select("with");
    const run::TestResult result = test_on(ranks);
    expect_equal(result.model, expected.model);
    ASSERT_EQ(result.baselines.size(), expected.baselines.size());
    for (std::size_t b = 0; b < result.baselines.size(); ++b)
      expect_equal(result.baselines[b].result, expected.baselines[b].result);
  }
}

TEST_F(NewItems, AreRankedAmongThemselvesByTheirFeatures) {
  train_on(2);
  const run::TestResult result = test_on(1);
  const evaluate::NewItemsResult& found = result.model.new_items.value();
  EXPECT_EQ(found.items, 10);
  EXPECT_EQ(found.users, 16);
  EXPECT_FALSE(found.metrics.contains("mean_popularity@10")) << "not a metric of ranks";

  // The scores of each user from the stored weights; the user without history has the order of the items.
  const Tensors tensors = tensors_in(run_folder().best());
  const std::vector<float>& matrix = tensors.at("weights/items/matrix");
  math::MetricSums recall;
  double random_recall = 0.0;
  std::vector<double> of_users;
  const io::DatasetFile dataset(options_.data.file);
  const Csr fold_in = dataset.read_rows("test/fold_in", {0, test_users});
  for (std::int64_t u = 0; u < test_users; ++u) {
    const std::vector<std::int32_t> targets = new_targets_of(u);
    if (targets.empty()) continue;
    std::array<double, all_items - known_items> scores{};
    for (const std::int32_t i : fold_in.view().row(u))
      for (std::size_t j = 0; j < scores.size(); ++j)
        scores[j] += matrix[static_cast<std::size_t>(i) * all_items + known_items + j];
    double hits = 0.0;
    for (const std::int32_t target : targets) {
      const double own = scores[static_cast<std::size_t>(target - known_items)];
      const auto ahead = std::ranges::count_if(scores, [&](double s) { return s > own + 1e-6; });
      const auto ties_before =
          std::ranges::count_if(std::span(scores).first(static_cast<std::size_t>(target - known_items)),
                                [&](double s) { return std::abs(s - own) <= 1e-6; });
      if (ahead + ties_before < 3) hits += 1.0;
    }
    of_users.push_back(hits / static_cast<double>(targets.size()));
    recall.add(of_users.back());
    random_recall += 3.0 / 10.0;  // whatever the number of targets
  }
  EXPECT_NEAR(found.metrics.at("recall@3").mean, recall.mean(), 1e-12);
  EXPECT_NEAR(*found.metrics.at("recall@3").standard_error, recall.standard_error(), 1e-12);
  EXPECT_NEAR(found.random.at("recall@3").mean, random_recall / 16.0, 1e-12);
  EXPECT_GT(recall.mean(), 0.85) << "all have the features of their tastes, except the user without history";
  for (const int ranks : {2, 3, 4}) {
    const evaluate::NewItemsResult of_ranks = test_on(ranks).model.new_items.value();
    for (const auto& [name, value] : found.metrics)
      EXPECT_NEAR(of_ranks.metrics.at(name).mean, value.mean, 1e-12) << name;
  }

  const io::Json event = events("test").at(0);
  const io::Json of_log = event.at("groups").at("new_items");
  EXPECT_EQ(of_log.at("items"), 10);
  EXPECT_EQ(of_log.at("users"), 16);
  EXPECT_EQ(of_log.at("metrics").at("recall@3").at("value"), found.metrics.at("recall@3").mean);
  EXPECT_EQ(of_log.at("metrics").at("recall@3").at("se"), *found.metrics.at("recall@3").standard_error);
  EXPECT_EQ(of_log.at("metrics").at("recall@3").at("random"), found.random.at("recall@3").mean);
  EXPECT_TRUE(event.at("baselines").at("popularity").at("groups").contains("new_items"));
  expect_in(run::to_table(result),
            {"  10 new items, ranked among themselves: 16 users\n", "0.3000 in random order\n"});
  EXPECT_EQ(of_best<std::int64_t>("new_items"), 10);
  EXPECT_EQ(of_best<double>("feature_weight"), 100.0);
  const io::Json solution = events("solve").at(0);
  EXPECT_EQ(solution.at("settings").at("feature_weight"), 100.0);
  EXPECT_TRUE(solution.at("groups").at("new_items").at("metrics").contains("ndcg@10"));

  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [&](const run::Run& run) {
      evaluate::Evaluator evaluator(run, run.dataset, "test", options_.validation.metrics);
      const auto scorer = models::make_item_scorer(evaluator.popularity(), all_items, run);
      const evaluate::EvaluationResult popularity = evaluator.evaluate(*scorer);
      const io::UserColumns content = evaluator.per_user({{"", &popularity}});
      EXPECT_EQ(content.users.size(), test_users - 1) << "those with other targets";
      const auto column = [&](const std::string& path) {
        return std::ranges::find(content.columns, path, &io::UserColumns::Column::path)->values;
      };
      const auto users = std::get<io::IdList>(column("new_items/user_id")).numbers;
      const auto counts = std::get<std::vector<std::int64_t>>(column("new_items/targets"));
      const auto values = std::get<std::vector<double>>(column("new_items/recall@3"));
      ASSERT_EQ(users.size(), 16U);
      for (std::size_t i = 0; i < users.size(); ++i) {
        EXPECT_EQ(counts[i], std::ssize(new_targets_of(users[i])));
        // The order of the items: new item 0, 1 and 2 are in the list.
        double hits = 0.0;
        for (const std::int32_t target : new_targets_of(users[i]))
          hits += target < known_items + 3 ? 1.0 : 0.0;
        EXPECT_DOUBLE_EQ(values[i], hits / static_cast<double>(counts[i])) << users[i];
      }
    });
  }
  on_ranks(2, [&](const run::Run& run) { test(run, run_folder().best(), file("per_user.h5")); });
}

TEST_F(NewItems, OfAHistoryAreNotInTheRandomOrder) {
  write("with.h5", true, true);
  on_ranks(2, [&](const run::Run& run) {
    evaluate::Evaluator evaluator(run, run.dataset, "test", {"recall@3"});
    const auto scorer = models::make_item_scorer(evaluator.popularity(), all_items, run);
    const evaluate::NewItemsResult found = evaluator.evaluate(*scorer).new_items.value();
    EXPECT_EQ(found.users, 16);
    // 15 users have seen one of the ten new items, the user without history none.
    EXPECT_NEAR(found.random.at("recall@3").mean, (15.0 * 3.0 / 9.0 + 3.0 / 10.0) / 16.0, 1e-12);
  });
}

TEST_F(NewItems, OfEaseByNeighborhoodsHaveScoresFromTheirFeatures) {
  own_options<models::EaseOptions>(options_.model).neighbors = 20;
  train_on(1);
  EXPECT_GT(test_on(2).model.new_items->metrics.at("recall@3").mean, 0.85);
}

TEST_F(NewItems, OfTrainedModelsAreExcludedWhileTheOthersAreRanked) {
  using Ranks = std::vector<std::int32_t>;
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    options_.model = {kind.type(), {20}, 6, 0.5};
    own_options<models::ElsaOptions>(options_.model).factors = 8;
    options_.distributed.item_slices = 1;
    std::map<std::string, math::MetricSums> expected;
    on_ranks(1, [&](const run::Run& run) {
      const auto model = make_initial(run);
      evaluate::Evaluator evaluator(run, run.dataset, "test", {"ndcg@10", "recall@3"});
      evaluator.evaluate(*model);
      // Afterwards no item is excluded: the complete lists order both kinds of items.
      const data::HeldOutUsers users = data::read_held_out(run.dataset, "test", 0, 1);
      const auto loaded = model->load_users({users.fold_in.view(), {}, {}, 0});
      for (std::int64_t u = 0; u < test_users; ++u) {
        std::vector<std::int32_t> list(all_items);
        std::vector<float> scores(all_items);
        model->top_k(*loaded, {u, u + 1}, models::History::items, false, all_items, list, scores);
        std::erase(list, -1);
        if (u == 2) {  // without history: new items are in their order
          std::iota(list.begin(), list.end(), 0);
        }
        EXPECT_EQ(std::ssize(list), all_items - users.fold_in.view().row_size(u));
        std::array<Ranks, 2> ranks;
        std::array<std::int32_t, 2> count{};
        for (const std::int32_t item : list) {
          const std::size_t is_new = item < known_items ? 0 : 1;
          if (std::ranges::binary_search(users.targets.view().row(u), item))
            ranks.at(is_new).push_back(count.at(is_new));
          ++count.at(is_new);
        }
        for (const std::string name : {"ndcg@10", "recall@3"}) {
          const math::Metric metric = math::parse_metric(name);
          if (!ranks[0].empty() && u != 2)
            expected[name].add(math::metric_of_user(metric, ranks[0], known_items));
          if (!ranks[1].empty()) expected["new " + name].add(math::metric_of_user(metric, ranks[1], 10));
        }
      }
    });
    for (const auto& [ranks, item_slices] :
         std::vector<std::pair<int, int>>{{1, 1}, {3, 1}, {2, 2}, {4, 2}}) {
      options_.distributed.item_slices = item_slices;
      on_ranks(ranks, [&](const run::Run& run) {
        const auto model = make_initial(run);
        evaluate::Evaluator evaluator(run, run.dataset, "test", {"ndcg@10", "recall@3"});
        evaluator.prepare(*model);
        const evaluate::EvaluationResult result = evaluator.evaluate(*model);
        for (const std::string name : {"ndcg@10", "recall@3"}) {
          EXPECT_NEAR(result.with_history.at(name).mean, expected.at(name).mean(), 1e-9) << name;
          EXPECT_NEAR(result.new_items->metrics.at(name).mean, expected.at("new " + name).mean(), 1e-9)
              << name;
        }
        EXPECT_EQ(result.new_items->users, 16);
      });
    }
  });
}

}  // namespace
}  // namespace vaecf::training
