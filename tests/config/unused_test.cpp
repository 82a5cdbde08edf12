// Keys that are set but have no effect: each key is in one of the lists.
#include <vaecf/data/prepare.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/other_value.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::config {
namespace {

using Overrides = std::vector<std::string>;

bool is_of_prepare(const std::string& path) {
  return path.starts_with("data.source.") || path.starts_with("data.prepare.");
}

/// Returns the configuration `context` with another value of `key`.
Config changed(const Overrides& context, const Key& key) {
  Overrides overrides = context;
  overrides.push_back(key.path + "=" + other_value(key));
  return parse("", "c.yaml", overrides);
}

bool lists(const Config& config, Command command, const std::string& path) {
  const std::vector<std::string> unused = unused_keys(config, command);
  return std::ranges::find(unused, path) != unused.end();
}

class UnusedKeys : public ::testing::Test {
 protected:
  UnusedKeys() {
    std::string csv = "user,item,rating,time\n";
    std::string dat;
    std::string json;
    std::string lists;
    for (int user = 0; user < 12; ++user) {
      lists += std::to_string(user);
      for (int item = 0; item < 6; ++item) {
        if ((user + item) % 4 == 0) continue;
        const int time = 100 * user + 7 * item % 5;
        csv += format("{},{},{},{}\n", user, item, 1 + item % 5, time);
        dat += format("{}::{}::{}::{}\n", user, item, 1 + item % 5, time);
        json += format("{{\"user\": {}, \"item\": {}}}\n", user, item);
        lists += format(" {}", item);
      }
      lists += '\n';
    }
    write("events.csv", csv);
    write("test.csv", csv.substr(0, 200) + "\n");
    write("train.csv", csv);
    write("ratings.dat", dat);
    write("events.jsonl", json);
    write("lists.txt", lists);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }

  /// Returns the overrides for a source in the folder.
  Overrides context(const std::string& format, const std::string& file, const Overrides& others) const {
    Overrides all{"data.source.format=" + format, "data.source.path=" + (folder_.path() / file).string(),
                  "data.prepare.min_user_items=1", "data.prepare.validation_users=1",
                  "data.prepare.test_users=1"};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }

  /// Returns the arrays of the dataset that `config` makes, as text.
  std::string dataset_of(const Config& config) const {
    Log log;
    Progress progress;
    const std::string path = (folder_.path() / "made.h5").string();
    data::prepare(config.source, config.prepare, "made", path, {.force = true}, log, progress);
    const io::DatasetFile file(path);
    std::string text;
    for (const std::string ids : {"items/id", "train/user_id", "test/user_id"}) {
      const io::IdList list = file.read_ids(ids);
      for (std::int64_t i = 0; i < list.size(); ++i) text += list.text(i) + " ";
      text += "\n";
    }
    for (const std::string matrix : {"train", "test/fold_in", "test/held_out"}) {
      const Csr rows = file.read_rows(matrix, {0, file.rows(matrix)});
      for (std::int64_t row = 0; row < rows.rows(); ++row)
        for (const std::int32_t column : rows.view().row(row)) text += format("{} {}, ", row, column);
      text += "\n";
    }
    return text;
  }

  testing::TemporaryFolder folder_;
};

// Keys that every source and split uses, with the reason.
const std::map<std::string, std::string> always_used{
    {"data.source.format", "the others depend on it"},
    {"data.source.path", "there is no source without it"},
    {"data.source.items.title_column", "the table of items is read for it alone"},
    {"data.prepare.duplicates", "any source may repeat a pair, or refuses sum and max"},
    {"data.prepare.interaction_weights", "a source without ratings refuses it"},
    {"data.prepare.split", "the others depend on it"},
    {"data.prepare.validation_users", "the split stable refuses a number"},
    {"data.prepare.test_users", "the split stable refuses a number"},
    {"data.prepare.user_features", "a source without a table refuses it"},
    {"data.prepare.item_features", "a source without a table refuses it"},
    {"data.prepare.new_item_fraction", "prepare refuses it without item_features"},
    {"data.prepare.seed", "the order of users, except for pro_sg"},
    {"data.prepare.compression", "of the file"},
    {"data.prepare.memory_gib", "of the program"}};

TEST_F(UnusedKeys, EveryKeyOfPrepareIsListedWhereItChangesNothing) {
  std::set<std::string> listed;
  std::set<std::string> used;
  for (const Overrides& base :
       {context("delimited", "events.csv",
                {"data.prepare.split=random", "data.source.header=true", "data.source.user_column=user",
                 "data.source.item_column=item", "data.source.time_column=time"}),
        context("delimited", "train.csv", {"data.prepare.split=given"}),
        context("delimited", "train.csv", {"data.prepare.split=given", "data.prepare.validation_users=0"}),
        context("movielens_dat", "ratings.dat",
                {"data.prepare.split=stable", "data.prepare.validation_users=auto",
                 "data.prepare.test_users=auto", "data.prepare.min_rating=2",
                 "data.prepare.validation_fraction=0.2", "data.prepare.test_fraction=0.2"}),
        context("adjacency", "lists.txt", {"data.prepare.split=leave_one_out"}),
        context("json_lines", "events.jsonl",
                {"data.prepare.split=ratio", "data.source.user_column=user", "data.source.item_column=item"}),
        context("movielens_dat", "ratings.dat", {"data.prepare.split=time", "data.prepare.min_rating=1"})}) {
    const Config config = parse("", "c.yaml", base);
    std::vector<std::string> unused = unused_keys(config, Command::prepare);
    std::erase_if(unused, [&](const std::string& key) {  // context() sets it for the other splits
      return std::ranges::any_of(std::span(base).subspan(2, 3),
                                 [&](auto& set) { return set.starts_with(key); });
    });
    EXPECT_EQ(unused, std::vector<std::string>());
    const std::string expected = dataset_of(config);
    for (const Key& key : all_keys()) {
      if (!is_of_prepare(key.path)) continue;
      const Config other = changed(base, key);
      if (!lists(other, Command::prepare, key.path)) {
        used.insert(key.path);
        continue;
      }
      listed.insert(key.path);
      EXPECT_EQ(dataset_of(other), expected)
          << key.path << " has an effect with " << base[0] << ", " << base[5];
    }
  }
  for (const Key& key : all_keys()) {
    if (!is_of_prepare(key.path)) continue;
    EXPECT_NE(listed.contains(key.path), always_used.contains(key.path))
        << key.path
        << ": extend data::prepare_uses by when it has no effect, or state in always_used why it has one";
    const bool of_table =
        key.path.starts_with("data.source.users.") || key.path.starts_with("data.source.items.");
    EXPECT_TRUE(used.contains(key.path) || of_table || key.path.starts_with("data.prepare.feature_") ||
                key.path == "data.source.file" || key.path == "data.prepare.repeat_filters")
        << key.path;
  }
}

TEST_F(UnusedKeys, KeysThatNeedOthersAreUsedWithThem) {
  const std::string folder = folder_.path().string();
  for (const auto& [key, others] : std::map<std::string, Overrides>{
           {"data.source.file=train.csv", {"data.source.format=delimited", "data.source.path=" + folder}},
           {"data.source.users.file=x",
            {"data.prepare.user_features=[a]", "data.source.users.path=" + folder}},
           {"data.source.items.file=x",
            {"data.prepare.item_features=[a]", "data.source.items.path=" + folder}},
           {"data.source.items.separator=;", {"data.source.items.title_column=name"}},
           {"data.prepare.feature_hashes=3", {"data.prepare.item_features=[a]"}},
           {"data.prepare.feature_buckets=3", {"data.prepare.user_features=[a]"}},
           {"data.prepare.repeat_filters=true", {"data.prepare.min_item_users=2"}}}) {
    for (const bool with : {false, true}) {
      Overrides overrides{"data.source.format=movielens_csv",
                          "data.source.path=" + (folder_.path() / "train.csv").string(), key};
      if (with) overrides.insert(overrides.end(), others.begin(), others.end());
      const std::string path = key.substr(0, key.find('='));
      EXPECT_NE(lists(parse("", "c.yaml", overrides), Command::prepare, path), with) << key;
    }
  }
}

// Keys, or sections of keys, that all runs use, with the reason.
const std::map<std::string, std::string> used_in_training{
    {"name", "of the run"},
    {"device", "of the program"},
    {"data.file", "the dataset"},
    {"model.type", "the others depend on it"},
    {"model.low_rank.factors", "of the baselines, too"},
    {"evaluation.", "of the test, too"},
    {"validation.", "of the test, too"},
    {"run.", "of the folder and the checkpoints"},
    {"benchmark.", "of --benchmark"},
    {"backend.", "of the program"},
    {"distributed.", "of ranks, of which the configuration states no number"},
    {"watchdog.", "of ranks, too"}};

TEST(UnusedKeysOfTraining, EveryKeyIsListedForOtherModelsAndSettings) {
  std::vector<Overrides> contexts{{},
                                  {"train.optimizer.type=rmsprop"},
                                  {"train.optimizer.type=sgd"},
                                  {"model.type=recvae", "model.recvae.beta=0.5"},
                                  {"model.low_rank.factors=[0, 8]"},
                                  {"distributed.strategy=parameter_server"}};
  for (const auto& [type, name] : enum_names<models::ModelType>)
    contexts.push_back({format("model.type={}", name)});
  for (const Overrides& context : contexts)
    EXPECT_EQ(unused_keys(parse("", "c.yaml", context), Command::train), std::vector<std::string>());
  const std::set<std::string> of_servers{"distributed.parameter_server.servers",
                                         "distributed.parameter_server.updates",
                                         "distributed.parameter_server.staleness"};
  for (const Key& key : all_keys()) {
    if (is_of_prepare(key.path) || key.path == "model.type") continue;
    std::size_t listed = 0;
    for (const Overrides& context : contexts)
      listed += lists(changed(context, key), Command::train, key.path) ? 1 : 0;
    const bool of_baseline = std::ranges::any_of(models::all_kinds(), [&](const models::Kind* kind) {
      return kind->solved() != nullptr && key.path.starts_with(section_of(*kind));
    });
    const bool always =
        of_baseline || std::ranges::any_of(used_in_training, [&](const auto& entry) {
          return entry.first.ends_with('.') ? key.path.starts_with(entry.first) : key.path == entry.first;
        });
    EXPECT_NE(listed > 0, always && !of_servers.contains(key.path)) << key.path;
    EXPECT_TRUE(listed < contexts.size() || key.path == "distributed.parameter_server.staleness") << key.path;
  }
  const auto staleness = parse(
      "", "c.yaml",
      Overrides{"distributed.strategy=parameter_server", "distributed.parameter_server.updates=asynchronous",
                "distributed.parameter_server.staleness=2"});
  EXPECT_EQ(unused_keys(staleness, Command::train), std::vector<std::string>());
}

TEST(UnusedKeysOfTraining, AreListedIfTheFileOrAnOverrideSetsThemToAnotherValue) {
  const std::string text =
      "model: {type: mult_vae, hidden: [9], dropout: 0.5}\ntrain: {annealing: {cap: 0.5}}";
  EXPECT_EQ(unused_keys(parse(text, "c.yaml"), Command::train), std::vector<std::string>());
  const Overrides overrides = {"model.type=elsa", "model.elsa.factors=8", "model.latent=7"};
  EXPECT_EQ(unused_keys(parse(text, "c.yaml", overrides), Command::train),
            (std::vector<std::string>{"model.hidden", "model.latent", "train.annealing.cap"}));
}

}  // namespace
}  // namespace vaecf::config
