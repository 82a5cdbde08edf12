// Words for values that are no numbers, switches, and paths that are not set.
#include <vaecf/base/error.hpp>
#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "config/keys.hpp"
#include "config/read_text.hpp"
#include "support/messages.hpp"

namespace vaecf::config {
namespace {

TEST(Words, WordsStandForWhatIsNoNumber) {
  for (const auto& [key, word] :
       std::vector<std::pair<std::string, std::string>>{{"train.patience", "never"},
                                                        {"validation.every", "never"},
                                                        {"run.checkpoint_every.epochs", "never"},
                                                        {"train.clip_gradient_norm", "null"},
                                                        {"model.low_rank.keep", "null"},
                                                        {"model.ease.neighbors", "all"},
                                                        {"model.item_knn.neighbors", "all"},
                                                        {"backend.threads", "auto"},
                                                        {"data.prepare.memory_gib", "auto"},
                                                        {"data.prepare.feature_buckets", "auto"},
                                                        {"train.annealing.epochs", "auto"}}) {
    SCOPED_TRACE(key);
    const std::string leaf = key.substr(key.rfind('.') + 1);
    const Config config = read("", {key + "=3", key + "=" + word});
    expect_in(config.text, {leaf + ": " + word + "\n"});
    EXPECT_TRUE(differences(read(config.text), config).empty());
    expect_in(refusal("", {key + "=0"}), {key + " must be ", word + " or ", "got \"0\""});
  }
  EXPECT_EQ(read("", {"model.low_rank.factors=0"}).options.model.low_rank.factors,
            std::vector<std::int64_t>{0})
      << "a number of factors";
  EXPECT_EQ(read("", {"data.prepare.min_rating=0"}).prepare.min_rating, 0.0);
  EXPECT_EQ(read("data.prepare: {min_rating: null, validation_users: auto}").prepare.validation_users,
            data::PrepareOptions::automatic);
}

TEST(Words, SwitchesAreReadAsByYaml11AndNothingElseIs) {
  const auto overlap = [](const std::string& word) {
    return read("distributed: {overlap: " + word + "}").options.distributed.overlap;
  };
  for (const char* word : {"true", "on", "yes", "On", "YES"}) EXPECT_EQ(overlap(word), Toggle::on) << word;
  for (const char* word : {"false", "off", "no", "Off", "NO"}) EXPECT_EQ(overlap(word), Toggle::off) << word;
  EXPECT_EQ(overlap("auto"), Toggle::automatic);
  EXPECT_TRUE(read("data: {source: {header: yes}}").source.header);
  EXPECT_FALSE(read("data: {source: {header: off}}").source.header);
  EXPECT_EQ(read("data: {source: {rating_column: on}}").source.rating_column, "on");
  EXPECT_EQ(read("name: no").options.name, "no");
  expect_in(refusal("train: {precision: no}"), {"train.precision must be one of auto, fp32"});
}

TEST(Words, PathsAndColumnsThatAreNotSetAreNull) {
  const Config plain = read("");
  for (const Key& key : all_keys()) {
    if (key.schema.dump().find("\"string\"") == std::string::npos || key.words != "null or ") continue;
    SCOPED_TRACE(key.path);
    EXPECT_EQ(key.write(plain), key.path.ends_with("value_separator") ? "\"|\"" : "null");
    expect_in(refusal("", {key.path + "="}), {"null or "});
    const std::string set = key.path == "data.source.format" ? "msd" : "x";
    EXPECT_EQ(key.write(read("", {key.path + "=" + set, key.path + "=null"})), "null");
  }
  expect_in(refusal("data: {source: {time_column: ''}}"),
            {"data.source.time_column must be null or not empty, got \"\""});
}

}  // namespace
}  // namespace vaecf::config
