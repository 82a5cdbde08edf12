#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "app/recommend/item_names.hpp"
#include "app/recommend/output.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::app {
namespace {

TEST(OutputFormats, FollowTheOptionOrTheEnding) {
  const auto format_of = [](const std::string& output, const std::string& format = "") {
    return output_format(output, format);
  };
  EXPECT_EQ(format_of(""), OutputFormat::tsv);
  EXPECT_EQ(format_of("plain"), OutputFormat::tsv);
  EXPECT_EQ(format_of("a.b/top.csv"), OutputFormat::csv);
  EXPECT_EQ(format_of("top.jsonl"), OutputFormat::jsonl);
  EXPECT_EQ(format_of("top.h5"), OutputFormat::hdf5);
  EXPECT_EQ(format_of("top.hdf5"), OutputFormat::hdf5);
  EXPECT_EQ(format_of("top", "csv"), OutputFormat::csv);
  for (const std::string ending : {".parquet", ".xlsx", ".TSV"}) {
    expect_in(message_of<InputError>([&] { format_of("top" + ending); }), {".h5 or .hdf5, got " + ending});
    EXPECT_EQ(format_of("top" + ending, "tsv"), OutputFormat::tsv);
  }
  expect_in(message_of<InputError>([&] { format_of("", "hdf5"); }), {"requires a file; set --output"});
}

/// A file of the lists of two users, of which the second gets popular items: of two places and of one.
class WrittenLists : public ::testing::Test {
 protected:
  std::string written(OutputFormat format, bool titles = true, bool explained = false) const {
    io::RecommendationHeader header{users_, {{}, {"a \"q\"", "b"}}, {}, 2, {}, explained ? 2 : 0};
    if (titles) header.titles = {{}, {"A, the", "B\tb"}};
    RecommendationOutput output(format, path_, std::move(header));
    const std::array items{1, 0, 0, -1};
    const std::array scores{0.5F, 0.1F, NAN, 0.0F};
    const std::array because{0, 1, 1, -1, -1, -1, -1, -1};
    const std::array contributions{0.375F, 0.125F, 0.1F, NAN, NAN, NAN, NAN, NAN};
    output.append(explained ? Recommendations{items, scores, because, contributions}
                            : Recommendations{items, scores});
    output.commit();
    return (std::ostringstream() << std::ifstream(path_).rdbuf()).str();
  }

  testing::TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "lists").string();
  io::IdList users_{{}, {"1,2", "two\nlines"}};
};

TEST_F(WrittenLists, HaveALineForEachItemOrAnObjectForEachUser) {
  EXPECT_EQ(written(OutputFormat::tsv),
            "user\titem\tscore\ttitle\n1,2\tb\t0.5\tB b\n1,2\ta \"q\"\t0.100000001\tA, the\n"
            "two lines\ta \"q\"\tnan\tA, the\n");
  EXPECT_EQ(written(OutputFormat::csv, false),
            "user,item,score\n\"1,2\",b,0.5\n\"1,2\",\"a \"\"q\"\"\",0.100000001\n"
            "\"two\nlines\",\"a \"\"q\"\"\",nan\n");
  const std::string first =
      R"({"user":"1,2","items":["b","a \"q\""],"scores":[0.5,0.100000001],"titles":["B\tb","A, the"]})";
  const std::string second =
      R"({"user":"two\nlines","items":["a \"q\""],"scores":[null],"titles":["A, the"]})";
  EXPECT_EQ(written(OutputFormat::jsonl), first + "\n" + second + "\n");
  EXPECT_EQ(written(OutputFormat::json), "[\n" + first + ",\n" + second + "\n]\n");
  EXPECT_EQ(written(OutputFormat::json, false).find("titles"), std::string::npos);
  EXPECT_EQ(written(OutputFormat::hdf5).substr(1, 3), "HDF");
}

TEST_F(WrittenLists, HaveTheReasonsOfEachItem) {
  EXPECT_EQ(written(OutputFormat::csv, true, true),
            "user,item,score,title,because_1,contribution_1,because_title_1,because_2,contribution_2,"
            "because_title_2\n"
            "\"1,2\",b,0.5,B\tb,\"a \"\"q\"\"\",0.375,\"A, the\",b,0.125,B\tb\n"
            "\"1,2\",\"a \"\"q\"\"\",0.100000001,\"A, the\",b,0.100000001,B\tb,,,\n"
            "\"two\nlines\",\"a \"\"q\"\"\",nan,\"A, the\",,,,,,\n");
  expect_in(written(OutputFormat::tsv, false, true), {"\tb\t0.100000001\t\t\n", "\tnan\t\t\t\t\n"});
  expect_in(written(OutputFormat::jsonl, true, true),
            {R"("because":[["a \"q\"","b"],["b"]],"contribution":[[0.375,0.125],[0.100000001]],)",
             R"("because_titles":[["A, the","B\tb"],["B\tb"]]})", R"("because":[[]],"contribution":[[]],)"});
}

TEST_F(WrittenLists, HaveNumbersAsIdsIfEachIdIsOne) {
  users_ = io::make_ids({"12", "-3"});
  expect_in(written(OutputFormat::jsonl), {R"({"user":12,)", R"({"user":-3,)"});
  users_ = io::make_ids({"12", "007"});
  expect_in(written(OutputFormat::jsonl), {R"({"user":"12",)", R"({"user":"007",)"});
}

TEST_F(WrittenLists, OfIdsThatAreNotUtf8AreNoJson) {
  users_.strings[1] = "\xe9va";
  for (const OutputFormat format : {OutputFormat::json, OutputFormat::jsonl}) {
    expect_in(message_of<InputError>([&] { written(format); }),
              {"user \\xe9va is not UTF-8, which JSON requires; choose a .tsv, .csv or .h5 file"});
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  expect_in(written(OutputFormat::tsv), {"\n\xe9va\t"});
}

TEST(UnknownNames, TextListsTheFirstFiveNames) {
  UnknownNames unknown;
  for (int i = 0; i < 20; ++i) unknown.add(std::string(1, static_cast<char>('a' + i % 5)));
  EXPECT_EQ(unknown.text(), "a, b, c, d, e");
  unknown.add("f");
  EXPECT_EQ(unknown.text(), "a, b, c, d, e ...");
  EXPECT_EQ(unknown.count(), 21);
  UnknownNames long_named;
  for (int i = 0; i < 2; ++i) long_named.add(std::string(100, 'a'));
  EXPECT_EQ(long_named.text(), std::string(80, 'a')) << "listed once, truncated";
}

}  // namespace
}  // namespace vaecf::app
