#include "app/recommend/list_files.hpp"

#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "app/recommend/output.hpp"
#include "app/recommend/recommend_arguments.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::app {
namespace {

class Lists : public ::testing::Test {
 protected:
  std::string write(const std::string& text, const std::string& name = "lists.tsv") const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  ListFile read(const std::string& text, const std::string& name = "lists.tsv") const {
    return read_lists(write(text, name), "test", users_, items_);
  }
  std::string refusal(const std::string& text, const std::string& name = "lists.tsv") const {
    return message_of<InputError>([&] { read(text, name); });
  }

  const testing::TemporaryFolder folder_;
  io::IdList users_{{}, {"ann", "bob"}};
  io::IdList items_{{10, 20, 30, 40}, {}};
};

TEST_F(Lists, AreSortedByRankThenScoreThenPosition) {
  const evaluate::Lists expected = {{1, 0, 3}, {2}};
  for (const auto& [text, order] : std::vector<std::pair<std::string, std::string>>{
           {"user\titem\tscore\trank\nann\t10\t9\t2\nann\t40\t8\t10\nbob\t30\t1\t1\nann\t20\t7\t1\n",
            "by rank"},
           {"score,itemId,userId\n0.5,10,ann\n-1e3,40,ann\n2,30,bob\n.75,20,ann\n", "by score"},
           {"user,item,Prediction\nann,20,1\nann,10,1\nann,40,1\nbob,30,1\n", "by score"},
           {"user,item,score\nann,20,1\nann,10,nan\nann,40,nan\nbob,30,nan\n", "by score"},
           {"item,user,title\n20,ann,x\n10,ann,y\n30,bob,\n40,ann,z\n", "as in the file"},
           {"ann\t20\nann\t10\nbob\t30\nann\t40\n", "as in the file"}}) {
    const ListFile file = read(text);
    EXPECT_EQ(file.lists, expected) << text;
    EXPECT_EQ(file.order, order) << text;
  }
}

TEST_F(Lists, OfRecommendAreReadInEveryFormat) {
  for (const std::string name : {"a.tsv", "a.csv", "a.jsonl", "a.json", "a.h5", "a.hdf5"}) {
    const std::string path = (folder_.path() / name).string();
    RecommendArguments arguments;
    arguments.output = path;
    RecommendationOutput output(output_format(arguments.output, arguments.format), path,
                                {.users = {{}, {"bob", "an\"n", "ann", "eve"}},
                                 .items = {{40, 50, 10}, {}},
                                 .titles = {{}, {"x", "y", "z"}},
                                 .k = 2,
                                 .attributes = {}});
    output.append({.items = std::array{0, -1, 1, 1, 1, 2, -1, -1},
                   .scores = std::array{.5F, 0.F, 1.F, 1.F, 3.F, 2.F, 0.F, 0.F}});
    output.commit();
    const ListFile file = read_lists(path, "test", users_, items_);
    EXPECT_EQ(file.lists, (evaluate::Lists{{-1, 0}, {3}})) << name;
    EXPECT_EQ(file.unknown_items.text(), "50") << name;
    EXPECT_EQ(file.unknown_items.count(), 1) << name;
    EXPECT_EQ(file.unknown_users.text(), "an\"n") << name;
  }
}

TEST_F(Lists, JsonIdsAreIntegersOrStrings) {
  const evaluate::Lists expected = {{0, -1, 1}, {}};
  EXPECT_EQ(read("{\"user\": \"ann\", \"items\": [10, \"x\", \"20\"]}\n", "a.jsonl").lists, expected);
  EXPECT_EQ(
      read("[{\"items\": [10, 50,\n 20], \"user\": \"ann\"},\n {\"user\": 7, \"items\": [10]}]", "a.json")
          .lists,
      expected);
  users_ = {{7, 8}, {}};
  EXPECT_EQ(read("{\"user\": 8, \"items\": [30]}\n{\"user\": \"7\", \"items\": []}\n", "a.jsonl").lists,
            (evaluate::Lists{{}, {2}}));
}

TEST_F(Lists, UnknownUsersAreCountedOnceAndUnknownItemsByPlace) {
  const ListFile file = read("eve,10\nann,50\neve,20\nfay,10\nbob,50\nann,10\nbob,60\n");
  EXPECT_EQ(file.lists, (evaluate::Lists{{-1, 0}, {-1, -1}}));
  EXPECT_EQ(file.unknown_users.count(), 2);
  EXPECT_EQ(file.unknown_users.text(), "eve, fay");
  EXPECT_EQ(file.unknown_items.count(), 3);
  EXPECT_EQ(file.unknown_items.text(), "50, 60");
}

TEST_F(Lists, ErrorsNameFileAndLine) {
  expect_in(refusal("user,item\nann,10\nbob,10\nann,20\nann,10\n"),
            {"lists.tsv:5: user ann has this item twice, first at ", "lists.tsv:2"});
  expect_in(refusal("ann,10\nann,x\nann,x\n"), {"lists.tsv:3: user ann has this item twice"});
  expect_in(refusal("ann,10,5\n"), {"lists.tsv:1: has 3 columns without names", "user,item,score"});
  expect_in(refusal("user,item,rank\nann,10,1\nann,20,second\n"),
            {"lists.tsv:3: must have a number in column 2", "second"});
  expect_in(refusal("user,item\nann,10\nann\n"), {"lists.tsv:3: must have a user in column 0"});
  expect_in(refusal("who,what\nann,10\n"), {"lists.tsv:1: the first line has neither"});
  expect_in(refusal("user,item\n"), {"lists.tsv: contains no list"});
  expect_in(refusal("eve,10\nfay,20\n"),
            {"none of its users (eve, fay) is among the test users", "ann, bob"});
  expect_in(refusal("ann,11\n"), {"none of its items (11) is among those of the dataset", "10, 20, 30"});
  const std::string ann = "{\"user\":\"ann\",\"items\":[10]}\n";
  expect_in(refusal(ann + ann, "a.jsonl"), {"a.jsonl:2: user ann has this item twice"});
  for (const std::string bad : {"ann", "{\"user\":\"ann\"}", "{\"user\":1.5,\"items\":[10]}",
                                "{\"user\":\"ann\",\"items\":[[10]]}", "[10]"})
    expect_in(refusal(ann + bad + "\n", "a.jsonl"), {"a.jsonl:2: must be an object"});
  expect_in(refusal("[" + ann + "," + ann + "]", "a.json"), {"a.json: list 2: user ann has this item twice"});
  expect_in(refusal("[" + ann + ",\n", "a.json"), {"a.json: is not JSON", "line "});
  expect_in(refusal(ann, "a.json"), {"a.json: must be a JSON array"});
  expect_in(refusal("user,item\n", "a.h5"), {"a.h5: is not an HDF5 file"});
  expect_in(refusal("ann Q0 10 1 9.5 bm25\nann Q0 20 2 9.25 bm25\n"), {"lists.tsv:1: is a TREC run"});
  expect_in(refusal("[" + ann + "]", "a.jsonl"), {"a.jsonl: is a JSON array"});
  for (const std::string& array : {"[" + ann + "]\n", "[\n" + ann + "]\n"})
    expect_in(refusal(array), {"lists.tsv: is a JSON array, but must be a TSV or CSV file; name it .json"});
  const std::string with_nan = "{\"user\": \"ann\", \"score\": NaN, \"items\": [10]}\n";
  expect_in(refusal(with_nan + "{\"user\": \"bob\" \"items\": []}\n", "a.jsonl"),
            {"are strings or integers; column 22: syntax error"});
  EXPECT_EQ(read(with_nan, "a.jsonl").lists, (evaluate::Lists{{0}, {}}));
}

}  // namespace
}  // namespace vaecf::app
