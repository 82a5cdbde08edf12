#include <gtest/gtest.h>
#include <vaecf/io/json.hpp>

#include <limits>

namespace vaecf::io {
namespace {

TEST(JsonText, KeepsOrderAndNesting) {
  const Json object = {{"z", {3, true, nullptr, "a \"b\""}}, {"a", {{"half", 0.5}}}};
  EXPECT_EQ(to_text(object), R"({"z":[3,true,null,"a \"b\""],"a":{"half":0.5}})");
}

TEST(JsonText, SurvivesWhatJsonCannotSay) {
  EXPECT_EQ(to_text(Json(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(to_text(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(JsonFields, OfAnotherKindAreAsIfTheyWereNotThere) {
  const Json object = {{"number", 3}, {"text", "3"}};
  EXPECT_EQ(number_at(object, "number"), 3.0);
  EXPECT_EQ(number_at(object, "text", 7.0), 7.0);
  EXPECT_EQ(number_at(object, "none", 7.0), 7.0);
  EXPECT_EQ(text_at(object, "text"), "3");
  EXPECT_EQ(text_at(object, "number", "other"), "other");
  EXPECT_EQ(text_at(Json(5), "text", "other"), "other");
}

}  // namespace
}  // namespace vaecf::io
