#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/keys.hpp"
#include "data/record.hpp"

namespace vaecf::config {
namespace {

using Overrides = std::vector<std::string>;

// Why keys are not in the recipe.
const std::map<std::string, std::string> not_recorded{
    {"data.source.path", "names and sha256 of the source's files are compared"},
    {"data.source.users.path", "likewise; users_member tells which file of an archive it is"},
    {"data.prepare.compression", "compared with how the dataset lies on disk"},
    {"data.prepare.memory_gib", "the dataset is the same, byte by byte"}};

// Another value than the default for each of the other keys.
const std::map<std::string, std::string> other_values{{"data.source.format", "msd"},
                                                      {"data.source.file", "x.csv"},
                                                      {"data.source.validation_path", "x.csv"},
                                                      {"data.source.test_path", "x.csv"},
                                                      {"data.source.separator", "';'"},
                                                      {"data.source.header", "false"},
                                                      {"data.source.quotes", "false"},
                                                      {"data.source.user_column", "1"},
                                                      {"data.source.item_column", "0"},
                                                      {"data.source.rating_column", "2"},
                                                      {"data.source.time_column", "3"},
                                                      {"data.source.list_starts_with", "count"},
                                                      {"data.source.users.file", "x.csv"},
                                                      {"data.source.users.separator", "';'"},
                                                      {"data.source.users.header", "false"},
                                                      {"data.source.users.quotes", "false"},
                                                      {"data.source.users.user_column", "1"},
                                                      {"data.prepare.min_rating", "1"},
                                                      {"data.prepare.min_user_items", "1"},
                                                      {"data.prepare.min_item_users", "1"},
                                                      {"data.prepare.validation_users", "0"},
                                                      {"data.prepare.test_users", "0"},
                                                      {"data.prepare.held_out_fraction", "0.5"},
                                                      {"data.prepare.split", "ratio"},
                                                      {"data.prepare.pick", "last"},
                                                      {"data.prepare.seed", "1"},
                                                      {"data.prepare.features", "[age]"},
                                                      {"data.prepare.feature_hashes", "3"},
                                                      {"data.prepare.feature_buckets", "99"}};

// Of these formats the columns are known; all others must record how `data.source` describes lines.
const std::set<std::string> fixed_formats{"movielens_csv", "movielens_dat", "movielens_100k",
                                          "netflix",       "lastfm_360k",   "msd",
                                          "pinterest",     "adjacency",     "pro_sg"};

class Recipe : public ::testing::Test {
 protected:
  Recipe() { std::ofstream(path_) << "1 2 3\n"; }

  io::Attributes of(Overrides overrides) const {
    overrides.push_back("data.source.path=" + path_);
    const Config config = parse("", "c.yaml", overrides);
    return data::recipe(config.source, config.prepare);
  }

  /// Whether datasets made under `context` with and without the key's other value are told apart.
  bool tells(const std::string& key, const Overrides& context) const {
    Overrides other = context;
    other.push_back(key + "=" + other_values.at(key));
    const io::Attributes without = of(context);
    const io::Attributes with = of(other);
    return !data::made_by(without, with) && !data::made_by(with, without);
  }

 private:
  testing::TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "train.txt").string();
};

TEST_F(Recipe, EveryKeyOfSourceAndPrepareChangesItOrSaysWhyNot) {
  std::vector<Overrides> contexts{{"data.source.format=delimited", "data.prepare.split=given"},
                                  {"data.source.format=delimited", "data.prepare.features=[country]"}};
  for (const std::string& format : data::source_formats())
    contexts.push_back({"data.source.format=" + format});
  for (const Key& key : all_keys()) {
    if (!key.path.starts_with("data.source.") && !key.path.starts_with("data.prepare.")) continue;
    if (not_recorded.contains(key.path)) continue;
    ASSERT_TRUE(other_values.contains(key.path))
        << key.path << ": record it in data::recipe and add a value here, or say in not_recorded why not";
    EXPECT_TRUE(std::ranges::any_of(contexts, [&](const auto& context) { return tells(key.path, context); }))
        << key.path << " is not in data::recipe, or its attribute is not among the optional ones";
  }
}

TEST_F(Recipe, FormatsThatAreDescribedRecordTheDescription) {
  for (const std::string& format : data::source_formats()) {
    if (fixed_formats.contains(format)) continue;
    for (const char* name :
         {"separator", "header", "quotes", "user_column", "item_column", "rating_column", "time_column"}) {
      EXPECT_TRUE(tells(std::string("data.source.") + name, {"data.source.format=" + format}))
          << format << " " << name;
    }
  }
}

}  // namespace
}  // namespace vaecf::config
