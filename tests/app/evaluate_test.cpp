#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/json.hpp>

#include <map>
#include <sstream>
#include <vector>

#include "app/process_fixture.hpp"
#include "support/hdf5_values.hpp"

namespace vaecf::app {
namespace {

/// Returns the rows of metrics in a table, without its title, with the columns of the first result only.
std::string metrics_in(const std::string& table) {
  std::istringstream in(table);
  std::string rows;
  std::string line;
  while (std::getline(in, line) && !line.starts_with("  left out"))
    if (line.find('@') != std::string::npos) rows += line.substr(0, 36) + "\n";
  return rows;
}

class Evaluate : public ProgramTest {
 protected:
  /// Creates a dataset of eight items, a to h, whose numbers of train users are 5, 4, 2, 1, 1, 1, 1, 0.
  Evaluate() {
    io::DatasetWriter writer(workspace.path("letters.h5"));
    const auto append = [&](const std::string& matrix, const std::vector<std::string>& rows) {
      for (const std::string& letters : rows) {
        std::vector<std::int32_t> columns;
        for (const char letter : letters) columns.push_back(letter - 'a');
        writer.append_row(matrix, columns);
      }
    };
    append("train", {"abc", "ab", "acd", "ae", "bf", "a", "bg"});
    append("test/fold_in", {"a", "ab", "c", "", "b", "g"});
    append("test/held_out", {"bh", "c", "ade", "a", "", "f"});
    writer.write_ids("items/id", {{}, {"a", "b", "c", "d", "e", "f", "g", "h"}});
    writer.write_ids("test/user_id", {{}, {"ann", "bob", "cyd", "dan", "eve", "fay"}});
    writer.set_attribute("name", std::string("letters"));
    writer.set_attribute("users", std::int64_t{13});
    writer.set_attribute("items", std::int64_t{8});
    writer.commit();
  }
};

// The numbers are those of a program in Python that follows docs/METRICS.md.
TEST_F(Evaluate, ComputesTheMetricsOfAnyLists) {
  workspace.write("other.csv",
                  "user,item,score\n"
                  "ann,h,7\nann,z,9\nann,c,6\nann,b,8\nann,a,7.5\n"
                  "bob,d,3\nbob,c,3\nbob,e,1\n"
                  "cyd,a,.9\ncyd,f,.8\ncyd,d,.5\ncyd,g,.4\ncyd,e,.1\n"
                  "dan,b,2\ndan,a,1\neve,a,1\ngus,a,1\n");
  const std::string command =
      "evaluate letters.h5 --lists other.csv --metrics hit@1,map@3,mrr@3,ndcg@3,ndcg@10,precision@3,"
      "recall@3,recall_n@3,mean_popularity@3,tail_share@3,novelty@3,coverage@3,gini@3";
  EXPECT_EQ(workspace.succeed(command).out,
            "test of other.csv: 5 users, 1 without a target left out\n"
            "  metric                          model\n"
            "  hit@1                0.2000 +- 0.1789\n"
            "  map@3                0.4278 +- 0.0967\n"
            "  mrr@3                0.5000 +- 0.1414\n"
            "  ndcg@3               0.5318 +- 0.1197\n"
            "  ndcg@10              0.5681 +- 0.1337\n"
            "  precision@3          0.4000 +- 0.1116\n"
            "  recall@3             0.7333 +- 0.1738\n"
            "  recall_n@3           0.7333 +- 0.1738\n"
            "  mean_popularity@3    2.0333 +- 0.6573\n"
            "  tail_share@3         0.2333 +- 0.0894\n"
            "  novelty@3            1.3922 +- 0.4122\n"
            "  coverage@3           0.8750          \n"
            "  gini@3               0.2750          \n"
            "  4 users with history\n"
            "  hit@1                0.2500 +- 0.2165\n"
            "  map@3                0.4097 +- 0.1192\n"
            "  mrr@3                0.5000 +- 0.1768\n"
            "  ndcg@3               0.5071 +- 0.1470\n"
            "  ndcg@10              0.5525 +- 0.1662\n"
            "  precision@3          0.4167 +- 0.1382\n"
            "  recall@3             0.6667 +- 0.2041\n"
            "  recall_n@3           0.6667 +- 0.2041\n"
            "  mean_popularity@3    1.4167 +- 0.4468\n"
            "  tail_share@3         0.2917 +- 0.0908\n"
            "  novelty@3            1.5787 +- 0.4712\n"
            "  1 users without history\n"
            "  hit@1                0.0000 +- 0.0000\n"
            "  map@3                0.5000 +- 0.0000\n"
            "  mrr@3                0.5000 +- 0.0000\n"
            "  ndcg@3               0.6309 +- 0.0000\n"
            "  ndcg@10              0.6309 +- 0.0000\n"
            "  precision@3          0.3333 +- 0.0000\n"
            "  recall@3             1.0000 +- 0.0000\n"
            "  recall_n@3           1.0000 +- 0.0000\n"
            "  mean_popularity@3    4.5000 +- 0.0000\n"
            "  tail_share@3         0.0000 +- 0.0000\n"
            "  novelty@3            0.6464 +- 0.0000\n"
            "  held-out items in the head: 4 users\n"
            "  ndcg@3               0.7031 +- 0.0625\n"
            "  ndcg@10              0.7031 +- 0.0625\n"
            "  recall@3             1.0000 +- 0.0000\n"
            "  recall_n@3           1.0000 +- 0.0000\n"
            "  held-out items in the tail: 3 users\n"
            "  ndcg@3               0.1667 +- 0.1361\n"
            "  ndcg@10              0.2956 +- 0.1236\n"
            "  recall@3             0.3333 +- 0.2722\n"
            "  recall_n@3           0.3333 +- 0.2722\n"
            "  lists of 4 of 5 users, by score\n"
            "  1 users without a list: count 0\n"
            "  1 places with items that the dataset does not have: misses (z)\n"
            "  1 places with items of the user's input: left out\n"
            "  1 users of the file are no test users: left out (gus)\n"
            "  1 lists have fewer than 3 items: the rest are misses\n"
            "  4 lists have fewer than 10 items: the rest are misses\n");
}

TEST_F(Evaluate, PrintsJsonWithWhatTheLinesBelowTheTableSay) {
  workspace.write("other.csv",
                  "user,item,score\nann,h,7\nann,z,9\nann,a,7.5\n"
                  "bob,d,3\nbob,c,2\nbob,e,.5\nbob,f,.4\nbob,g,.3\nbob,h,.2\ncyd,a,1\nfay,f,1\ngus,a,1\n");
  const std::string metrics = "hit@1,hit@2,hit@8,coverage@2";
  const auto json = io::Json::parse(
      workspace.succeed("evaluate letters.h5 --lists other.csv --json --metrics " + metrics).out);
  EXPECT_EQ(json.at("users"), 5);
  EXPECT_EQ(json.at("users_without_history"), 1);
  EXPECT_DOUBLE_EQ(json.at("metrics").at("hit@1").at("value"), 0.4);  // cyd, fay
  EXPECT_DOUBLE_EQ(json.at("metrics").at("hit@2").at("value"), 0.8);  // and ann, bob
  EXPECT_FALSE(json.at("metrics").at("coverage@2").contains("se"));
  EXPECT_TRUE(json.at("groups").contains("with_history"));
  EXPECT_EQ(json.at("order"), "by score");
  EXPECT_EQ(json.at("users_without_list"), 1);
  EXPECT_EQ(json.at("unknown_items"), 1);
  EXPECT_EQ(json.at("seen_items"), 1);
  EXPECT_EQ(json.at("unknown_users"), 1);
  EXPECT_EQ(json.at("short_lists").at("1"), 0);
  EXPECT_EQ(json.at("short_lists").at("2"), 2);
  EXPECT_EQ(json.at("short_lists").at("8"), 3) << "not that of bob, which has all items that are no input";
}

TEST_F(Evaluate, LongListOfAUserHasNoPartInTheNext) {
  {
    io::DatasetWriter writer(workspace.path("long.h5"));
    for (const char* const matrix : {"train", "test/fold_in"})
      for (int user = 0; user < 2; ++user) writer.append_row(matrix, std::vector<std::int32_t>{0});
    for (int user = 0; user < 2; ++user)
      writer.append_row("test/held_out", std::vector<std::int32_t>{50, 130});
    writer.write_ids("test/user_id", {{}, {"ann", "bob"}});
    writer.set_attribute("items", std::int64_t{200});
    writer.commit();
  }
  std::string lists;
  for (int item = 1; item <= 150; ++item) lists += format("ann\t{}\n", item);
  workspace.write("one.tsv", lists + "bob\t1\n");
  const std::string command = " --metrics recall@100,recall@150 --per-user users.h5";
  const auto recall = [&](const std::string& file, const char* metric) {
    workspace.succeed("evaluate long.h5 --lists " + file + command);
    return testing::hdf5_values<double>(workspace.path("users.h5"), metric);
  };
  using Values = std::vector<double>;
  EXPECT_EQ(recall("one.tsv", "recall@100"), (Values{0.5, 0.0}));
  EXPECT_EQ(recall("one.tsv", "recall@150"), (Values{1.0, 0.0}));
  // The other way round, each user's own places count.
  for (int item = 1; item <= 150; ++item) lists += format("bob\t{}\n", item);
  workspace.write("both.tsv", lists);
  EXPECT_EQ(recall("both.tsv", "recall@150"), (Values{1.0, 1.0}));
}

TEST_F(Evaluate, InvalidArgumentsAreErrors) {
  workspace.write("twice.tsv", "ann\tb\nann\tb\n");
  const std::string command = "evaluate letters.h5 --lists ";
  workspace.refuse(command + "twice.tsv", "twice.tsv:2: user ann has this item twice, first at twice.tsv:1");
  workspace.refuse(command + "none.tsv", "none.tsv");
  workspace.refuse("evaluate none.h5 --lists twice.tsv", "none.h5");
  workspace.refuse("evaluate letters.h5", "--lists is required");
  workspace.refuse(command + "twice.tsv --metrics ndcg@3,best@3", "'best@3' is not a metric");
  workspace.refuse(command + "twice.tsv --split train", "vaecf_dist --help");
  workspace.refuse(command + "twice.tsv --split validation",
                   "none of its validation users has a held-out item");
  workspace.refuse(command + "twice.tsv --per-user letters.h5", "letters.h5");
}

using EvaluateTrained = SmallRun;

// The lists of `recommend` are as long as the metrics need.
TEST_F(EvaluateTrained, ListsOfRecommendHaveTheMetricsOfTheTest) {
  const std::string metrics =
      "ndcg@10,recall@5,recall_n@10,hit@3,mrr@10,map@10,precision@10,coverage@10,gini@5,mean_popularity@10,tail_share@10,"
      "novelty@10";
  const std::map<std::string, std::vector<std::string>> files = {
      {"mult_vae", {"top.tsv", "top.h5"}}, {"ease", {"top.csv", "top.jsonl", "top.json"}}};
  for (const auto& [type, names] : files) {
    const std::string model = "small.yaml --set model.type=" + type + " --set name=" + type +
                              " --set evaluation.baselines=[] --set evaluation.metrics=[" + metrics + "]";
    const std::string tested = workspace.succeed(model + " -q --train --test --per-user tested.h5").out;
    ASSERT_EQ(count(metrics_in(tested), "@"), 12 + 2 * 3) << tested;
    for (const std::string& name : names) {
      workspace.succeed("recommend " + model + " -q --split test --top 10 --output " + name);
      const std::string judged =
          workspace.succeed("evaluate data.h5 --lists " + name + " --per-user judged.h5 --metrics " + metrics)
              .out;
      EXPECT_EQ(metrics_in(judged), metrics_in(tested)) << type << " " << name;
      expect_in(judged, {"test of " + name + ": 20 users\n", "\n  lists of 20 of 20 users, "});
      EXPECT_EQ(count(judged, ": left out") + count(judged, ": misses") + count(judged, "fewer"), 0)
          << judged;
      for (const char* const column : {"user_id", "history", "targets", "target_popularity", "ndcg@10",
                                       "recall@5", "hit@3", "map@10", "mean_popularity@10", "novelty@10"}) {
        const std::vector<double> values = testing::hdf5_values<double>(workspace.path("judged.h5"), column);
        EXPECT_EQ(values.size(), 20U) << column;
        EXPECT_EQ(values, testing::hdf5_values<double>(workspace.path("tested.h5"), column))
            << name << " " << column;
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::app
