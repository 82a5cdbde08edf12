#include <vaecf/io/event_log.hpp>

#include "io/io_fixture.hpp"

#include <cmath>
#include <limits>

namespace vaecf::io {
namespace {

using EventLogTest = IoTest;

TEST_F(EventLogTest, KeepsOrderAndKinds) {
  Event event("epoch");
  event.set("step", std::int64_t{9007199254740993}).set("ndcg@100", 0.4259).set("best", true);
  event.set("name", std::string("a \"b\"\n\xc3\xa4")).set("count", 3.0);
  EXPECT_EQ(
      to_text(event.fields()),
      R"({"event":"epoch","step":9007199254740993,"ndcg@100":0.4259,"best":true,"name":"a \"b\"\nä","count":3.0})");
}

TEST_F(EventLogTest, NumbersThatAreNoneBecomeNull) {
  Event event("x");
  event.set("a", std::nan("")).set("b", std::numeric_limits<double>::infinity());
  event.set("c", -std::numeric_limits<double>::infinity());
  EXPECT_EQ(to_text(event.fields()), R"({"event":"x","a":null,"b":null,"c":null})");
}

TEST_F(EventLogTest, DoublesSurvive) {
  for (const double value : {0.1, 1.0 / 3.0, 1e-320, 1.7976931348623157e308, -0.0, 123456789.125}) {
    const std::string line = to_text(Event("x").set("v", value).fields());
    const std::string number = line.substr(line.rfind(':') + 1);
    EXPECT_EQ(std::strtod(number.c_str(), nullptr), value) << line;
  }
  EXPECT_EQ(to_text(Event("x").set("v", 0.1).fields()), R"({"event":"x","v":0.1})");
}

TEST_F(EventLogTest, BytesThatAreNoTextDoNotEndTheRun) {
  EXPECT_EQ(to_text(Event("x").set("p", std::string("a\xff")).fields()),
            "{\"event\":\"x\",\"p\":\"a\xef\xbf\xbd\"}");
}

TEST_F(EventLogTest, AppendsAndFlushesEachLine) {
  {
    EventLog log(file("runs/a/metrics.jsonl"));
    log.write(Event("start"));
    EXPECT_EQ(bytes_of(file("runs/a/metrics.jsonl")), "{\"event\":\"start\"}\n");
  }
  EventLog log(file("runs/a/metrics.jsonl"));
  log.write(Event("end"));
  EXPECT_EQ(bytes_of(file("runs/a/metrics.jsonl")), "{\"event\":\"start\"}\n{\"event\":\"end\"}\n");
}

TEST_F(EventLogTest, TornLastLineStaysAlone) {
  put_bytes(file("m.jsonl"), "{\"event\":\"ep");
  EventLog(file("m.jsonl")).write(Event("end"));
  EXPECT_EQ(bytes_of(file("m.jsonl")), "{\"event\":\"ep\n{\"event\":\"end\"}\n");
}

TEST_F(EventLogTest, SilentLogWritesNowhere) {
  EventLog log;
  log.write(Event("start"));
  EXPECT_TRUE(names().empty());
}

TEST_F(EventLogTest, FullOrUnwritableIsSaid) {
  EventLog log("/dev/full");
  const std::string full = message_of<RunError>([&] { log.write(Event("start")); });
  EXPECT_NE(full.find("/dev/full"), std::string::npos);
  EXPECT_NE(full.find("No space left"), std::string::npos);
  EXPECT_NE(message_of<RunError>([&] { EventLog other(file("")); }).find("cannot be written"),
            std::string::npos);
}

}  // namespace
}  // namespace vaecf::io
