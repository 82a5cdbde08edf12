#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>
#include <vaecf/io/trace_file.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "support/temporary_folder.hpp"

namespace vaecf::io {
namespace {

std::string trace_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Trace, IsWhatPerfettoReads) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "deeper" / "t.json";
  TraceFile file(path);
  file.name_process(3, "rank 3 on \"a\"\xff");
  file.name_thread(3, 1, "compute");
  file.add({3, 1, "loss", 1'234'567, 2'000'008, "step", 12});
  file.add({3, 1, "late", -1'500, 0, "", 0});
  file.note("rank 3", "fine");
  EXPECT_FALSE(std::filesystem::exists(path));
  file.publish();

  const auto trace = nlohmann::json::parse(trace_text(path));
  const auto& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0]["ph"], "M");
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[0]["args"]["name"], "rank 3 on \"a\"\xef\xbf\xbd");
  EXPECT_EQ(events[2]["name"], "thread_name");
  EXPECT_EQ(events[2]["tid"], 1);
  EXPECT_EQ(events[4]["ph"], "X");
  EXPECT_EQ(events[4]["pid"], 3);
  EXPECT_DOUBLE_EQ(events[4]["ts"], 1234.567);
  EXPECT_DOUBLE_EQ(events[4]["dur"], 765.441);
  EXPECT_EQ(events[4]["args"]["step"], 12);
  EXPECT_DOUBLE_EQ(events[5]["ts"], -1.5);
  EXPECT_FALSE(events[5].contains("args"));
  EXPECT_EQ(trace["otherData"]["rank 3"], "fine");
}

TEST(Trace, WithoutEventsIsStillOne) {
  const testing::TemporaryFolder folder;
  TraceFile file(folder.path() / "t.json");
  file.publish();
  EXPECT_TRUE(nlohmann::json::parse(trace_text(folder.path() / "t.json"))["traceEvents"].empty());
}

TEST(Trace, LeavesNothingUnlessPublished) {
  const testing::TemporaryFolder folder;
  {
    TraceFile file(folder.path() / "t.json");
    // More than is held back.
    for (int i = 0; i < 30'000; ++i) file.add({0, 0, "something", i, i + 1, "step", i});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::ofstream(folder.path() / "file") << "in the way";
  EXPECT_THROW(TraceFile(folder.path() / "file" / "t.json"), RunError);
}

}  // namespace
}  // namespace vaecf::io
