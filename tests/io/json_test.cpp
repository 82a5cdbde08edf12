#include <gtest/gtest.h>
#include <vaecf/io/event_log.hpp>
#include <vaecf/io/json.hpp>

#include <limits>

namespace vaecf::io {
namespace {

TEST(JsonText, KeepsOrderAndNesting) {
  Json list = Json::list();
  list.add(std::int64_t{3}).add(true).add(Json()).add("a \"b\"");
  const Json object = Json::object().set("z", list).set("a", Json::object().set("half", 0.5));
  EXPECT_EQ(to_text(object), R"({"z":[3,true,null,"a \"b\""],"a":{"half":0.5}})");
  EXPECT_EQ(to_text(Json::object()), "{}");
  EXPECT_EQ(to_text(Json::list()), "[]");
}

TEST(JsonText, SurvivesWhatJsonCannotSay) {
  EXPECT_EQ(to_text(Json(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(to_text(Json(std::string("a\xff"))), "\"a\xef\xbf\xbd\"");
}

TEST(JsonText, StandsInEvents) {
  Json sizes = Json::list();
  sizes.add(Json::object().set("bytes", std::int64_t{4}).set("seconds", 0.25));
  EXPECT_EQ(to_json(Event("benchmark").set("all_reduce", sizes)),
            R"({"event":"benchmark","all_reduce":[{"bytes":4,"seconds":0.25}]})");
}

}  // namespace
}  // namespace vaecf::io
