#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/io/trace_file.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

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

  const auto trace = Json::parse(trace_text(path));
  const auto events = trace.at("traceEvents");
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0].at("ph").get<std::string>(), "M");
  EXPECT_EQ(events[0].at("name").get<std::string>(), "process_name");
  EXPECT_EQ(events[0].at("args").at("name").get<std::string>(), "rank 3 on \"a\"\xef\xbf\xbd");
  EXPECT_EQ(events[2].at("name").get<std::string>(), "thread_name");
  EXPECT_EQ(events[2].at("tid").get<std::int64_t>(), 1);
  EXPECT_EQ(events[4].at("ph").get<std::string>(), "X");
  EXPECT_EQ(events[4].at("pid").get<std::int64_t>(), 3);
  EXPECT_DOUBLE_EQ(events[4].at("ts").get<double>(), 1234.567);
  EXPECT_DOUBLE_EQ(events[4].at("dur").get<double>(), 765.441);
  EXPECT_EQ(events[4].at("args").at("step").get<std::int64_t>(), 12);
  EXPECT_DOUBLE_EQ(events[5].at("ts").get<double>(), -1.5);
  EXPECT_FALSE(events[5].contains("args"));
  EXPECT_EQ(trace.at("otherData").at("rank 3").get<std::string>(), "fine");
}

TEST(Trace, WithoutEventsIsStillOne) {
  const testing::TemporaryFolder folder;
  TraceFile file(folder.path() / "t.json");
  file.publish();
  EXPECT_TRUE(Json::parse(trace_text(folder.path() / "t.json")).at("traceEvents").empty());
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
