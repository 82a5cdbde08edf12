#include <vaecf/io/json.hpp>

#include <limits>
#include <map>

#include "io/io_fixture.hpp"

namespace vaecf::io {
namespace {

using EventLogTest = IoTest;

FilterResult filter_all(const std::string& path) {
  return filter_event_log(path, [](const Json&) { return true; });
}

TEST_F(EventLogTest, FieldsKeepTheirOrderAndTypeAndKinds) {
  Event event(EventKind::epoch);
  event.set("step", std::int64_t{9007199254740993}).set("ndcg@100", 0.4259).set("best", true);
  event.set("name", std::string("a \"b\"\n\xc3\xa4")).set("count", 3.0);
  EXPECT_EQ(
      dump(event.fields()),
      R"({"event":"epoch","step":9007199254740993,"ndcg@100":0.4259,"best":true,"name":"a \"b\"\nä","count":3.0})");
  for (const auto& [kind, name] : enum_names<EventKind>)
    EXPECT_EQ(event_kind(Event(kind).fields()), kind) << name;
  EXPECT_EQ(event_kind(Json::parse(R"({"event":"another","step":1})")), std::nullopt);
  EXPECT_EQ(event_kind(Json::parse(R"({"event":1})")), std::nullopt);
}

TEST(JsonLines, NumbersThatJsonLacksAreNullAndErrorsHaveTheirPlace) {
  std::string problem;
  EXPECT_EQ(dump(parse_line(R"({"a":NaN,"b":[-Infinity,Infinity],"NaN":"\"NaN, Infinity"})", problem)),
            R"({"a":null,"b":[null,null],"NaN":"\"NaN, Infinity"})");
  EXPECT_EQ(problem, "");
  for (const auto& [line, place] :
       std::map<std::string, std::string>{{R"({"a":1,})", "column 8: "},
                                          {R"({"a":NaN,"b":NaN,})", "column 18: "},
                                          {R"({"a":Nan})", "column 6: "},
                                          {"{", "column 2: "},
                                          {"{\"a\":\"\xff\"}", "column 7: "}}) {
    EXPECT_TRUE(parse_line(line, problem).is_discarded()) << line;
    EXPECT_EQ(problem.substr(0, place.size()), place) << line << ": " << problem;
    EXPECT_GT(problem.size(), place.size() + 10) << problem;
  }
}

TEST_F(EventLogTest, AppendsEachLineAtOnce) {
  EventLog(file("runs/a/metrics.jsonl")).write(Event(EventKind::start));
  EventLog log(file("runs/a/metrics.jsonl"));
  log.write(Event(EventKind::end));
  EXPECT_EQ(bytes_of(file("runs/a/metrics.jsonl")), "{\"event\":\"start\"}\n{\"event\":\"end\"}\n");
  put_bytes(file("runs/a/metrics.jsonl"), "{\"event\":\"ep");
  log.write(Event(EventKind::end));
  EXPECT_EQ(bytes_of(file("runs/a/metrics.jsonl")), "{\"event\":\"ep\n{\"event\":\"end\"}\n")
      << "a partial last line is not joined with the next one";
}

TEST_F(EventLogTest, WriteErrorsAreReported) {
  EventLog().write(Event(EventKind::start));  // discards events
  EXPECT_TRUE(names().empty());
  EventLog log("/dev/full");
  expect_refused<RunError>({"/dev/full", "No space left"}, [&] { log.write(Event(EventKind::start)); });
  expect_refused<RunError>({"cannot be written"}, [&] { EventLog other(file("")); });
}

TEST_F(EventLogTest, LinksAreNotFollowed) {
  const std::string mine = "{\"event\":\"start\"}\nmine";
  put_bytes(file("mine"), mine);
  std::filesystem::create_symlink(file("mine"), file("metrics.jsonl"));
  std::filesystem::create_symlink(file("new"), file("dangling.jsonl"));
  for (const char* name : {"metrics.jsonl", "dangling.jsonl"})
    expect_refused<RunError>({file(name), "remove the symbolic link"}, [&] { EventLog log(file(name)); });
  expect_refused<InputError>({file("metrics.jsonl"), "is a symbolic link"}, [&] {
    filter_event_log(file("metrics.jsonl"), [](const Json&) { return false; });
  });
  EXPECT_EQ(bytes_of(file("mine")), mine);
  EXPECT_EQ(names().size(), 3U);
}

TEST_F(EventLogTest, RemovesRejectedLinesAndKeepsOthersByteForByte) {
  const std::string early =
      "{\"event\":\"start\",\"version\":\"\xc3\xa4\"}\n"
      "{ \"event\" : \"epoch\", \"epoch\":1,\"step\":10,\"loss\":0.10000000000000001 }\r\n";
  put_bytes(file("m.jsonl"), early + "{\"event\":\"epoch\",\"epoch\":2,\"step\":20}\n{\"event\":\"end\"}\n");
  std::vector<std::string> seen;
  const FilterResult cut = filter_event_log(file("m.jsonl"), [&](const Json& event) {
    seen.push_back(get_string(event, "event"));
    return get_string(event, "event") == "start" || get_number(event, "step", 99) <= 10;
  });
  EXPECT_EQ(bytes_of(file("m.jsonl")), early);
  EXPECT_EQ(seen, (std::vector<std::string>{"start", "epoch", "epoch", "end"}));
  EXPECT_EQ(cut.dropped, 2);
  EXPECT_EQ(cut.unreadable, 0);
}

TEST_F(EventLogTest, RemovesLinesThatAreNotEvents) {
  const std::string good = "{\"event\":\"epoch\",\"epoch\":1}\n";
  const std::vector<std::string> bad = {"{\"event\":\"epoch\",\"ep",
                                        "{\"event\":\"ep{\"event\":\"start\"}",
                                        "",
                                        "[1]",
                                        "{\"epoch\":1}",
                                        "{\"event\":1}",
                                        "{\"event\":\"\xff\"}",
                                        std::string("\0\0\0", 3),
                                        std::string(100000, '[')};
  std::string bytes = good;
  for (const auto& line : bad) bytes += line + "\n" + good;
  put_bytes(file("m.jsonl"), bytes + "{\"event\":\"torn\",\"epo");
  const FilterResult cut = filter_all(file("m.jsonl"));
  EXPECT_EQ(cut.dropped, 0);
  EXPECT_EQ(cut.unreadable, static_cast<std::int64_t>(bad.size()) + 1);
  std::string expected = good;
  for (std::size_t i = 0; i < bad.size(); ++i) expected += good;
  EXPECT_EQ(bytes_of(file("m.jsonl")), expected);
}

TEST_F(EventLogTest, LeavesMissingEmptyAndCompleteLogs) {
  EXPECT_EQ(filter_all(file("none/m.jsonl")).unreadable, 0);
  EXPECT_TRUE(names().empty());

  put_bytes(file("m.jsonl"), "");
  filter_all(file("m.jsonl"));
  put_bytes(file("m.jsonl"), "{\"event\":\"epoch\"}");
  filter_all(file("m.jsonl"));
  EXPECT_EQ(bytes_of(file("m.jsonl")), "{\"event\":\"epoch\"}\n") << "a missing final newline is added";
  put_bytes(file("n.jsonl"), "{\"event\":\"start\"}\n");
  const auto before = std::filesystem::last_write_time(file("n.jsonl"));
  filter_all(file("n.jsonl"));
  EXPECT_EQ(std::filesystem::last_write_time(file("n.jsonl")), before);
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(EventLogTest, ExceptionKeepsThePreviousLog) {
  const std::string bytes = "{\"event\":\"start\"}\n{\"event\":\"end\"}\n";
  put_bytes(file("m.jsonl"), bytes);
  EXPECT_THROW(filter_event_log(file("m.jsonl"),
                                [](const Json& event) {
                                  if (get_string(event, "event") == "end") throw RunError("no opinion");
                                  return false;
                                }),
               RunError);
  EXPECT_EQ(bytes_of(file("m.jsonl")), bytes);
  EXPECT_EQ(names().size(), 1u);
  ASSERT_EQ(::mkfifo(file("log").c_str(), 0600), 0);  // must not block
  for (const std::string& path : {folder_.string(), file("log")}) {
    EXPECT_THROW(filter_all(path), InputError);
    expect_refused<InputError>({"is not a regular file"}, [&] { read_json_lines(path); });
  }
}

TEST(JsonFields, FieldsOfAnotherTypeGiveTheDefaultAndInvalidValuesAreReplaced) {
  const Json object = {{"number", 3}, {"text", "3"}};
  EXPECT_EQ(get_number(object, "number"), 3.0);
  EXPECT_EQ(get_number(object, "text", 7.0), 7.0);
  EXPECT_EQ(get_number(object, "none", 7.0), 7.0);
  EXPECT_EQ(get_string(object, "text"), "3");
  EXPECT_EQ(get_string(object, "number", "other"), "other");
  EXPECT_EQ(get_string(Json(5), "text", "other"), "other");
  EXPECT_EQ(dump(Json(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(dump(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace vaecf::io
