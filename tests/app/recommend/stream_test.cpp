#include <vaecf/base/log.hpp>
#include <vaecf/io/json.hpp>

#include <sstream>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Stream = TrainedRun;

/// Returns the lines of a text as JSON.
std::vector<io::Json> objects_of(const std::string& text) {
  std::vector<io::Json> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string problem;
    objects.push_back(io::parse_line(line, problem));
    EXPECT_EQ(problem, "") << line;
  }
  return objects;
}

TEST_F(Stream, AnswersAreThoseOfRecommend) {
  const auto known = lines_of(workspace.succeed("recommend small.yaml --quiet --top 5").out);
  std::string csv, json;
  for (int user = 0; user < 300; ++user) {  // more than a batch
    const std::string& first = known.at(user % known.size()).item;
    const std::string& second = known.at((user * 7 + 1) % known.size()).item;
    csv += format("{0},{1}\n{0},{2}\n", user, first, second);
    json += format("{{\"user\":{},\"items\":[{},\"{}\"]}}\n", user, first, second);
  }
  workspace.write("new.csv", csv);
  workspace.write("new.jsonl", json);
  for (const std::string model : {"ease", "item_knn", "mult_vae"}) {
    SCOPED_TRACE(model);
    workspace.succeed("small.yaml --train --quiet --set name=s --set model.type=" + model);
    const std::string run = "recommend --checkpoint runs/s/checkpoints/best.h5 --quiet --top 4 --reasons 2 ";
    const std::vector<io::Json> lists =
        objects_of(workspace.succeed(run + "--input new.csv --format jsonl").out);
    const Result streamed = workspace.bash("$PROGRAM " + run + "--stream < new.jsonl");
    ASSERT_EQ(streamed.code, 0) << streamed.err;
    const std::vector<io::Json> answers = objects_of(streamed.out);
    ASSERT_EQ(answers.size(), 300U);
    for (std::size_t n = 0; n < answers.size(); ++n) {
      EXPECT_EQ(answers[n]["user"], lists[n]["user"]);
      EXPECT_EQ(answers[n]["items"], lists[n]["items"]);
      if (model != "mult_vae") {  // scores of a network depend on the users of a batch in the last digits
        EXPECT_EQ(answers[n], lists[n]);
      }
    }
  }
}

TEST_F(Stream, BadLinesGetAnErrorAndTheStreamGoesOn) {
  const std::string item = lines_of(workspace.succeed("recommend small.yaml --quiet --top 1").out).at(0).item;
  const std::string good = format("{{\"items\":[{}],\"k\":2}}\n", item);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"{", "column"},
      {"[1]", "must be a JSON object"},
      {R"({"user":7,"item":[1]})", "item is no field; the fields are user, items"},
      {R"({"items":3})", "items: must be a list, got 3"},
      {R"({"items":[1e999]})", "number overflow"},
      {R"({"user":1e400,"items":[1]})", "number overflow"},
      {R"({"user":null})", "user: must be a string or an integer"},
      {R"({"user":{"a":1}})", "user: must be a string or an integer"},
      {R"({"user":1.5})", "user: must be a string or an integer"},
      {R"({"items":[true]})", "an id must be a string or an integer, got true"},
      {R"({"items":[[1,2]]})", "trained without interaction weights"},
      {R"({"k":0})", "k: must be an integer between 1 and"},
      {R"({"k":1e3})", "k: must be an integer"},
      {R"({"keep_seen":1})", "keep_seen: must be true or false"},
      {R"({"reasons":1})", "reasons: start the program with --reasons"},
      {R"({"include":[]})", "no item is left to recommend"},
      {R"({"user_features":{"age":1}})", "the model has no user features"},
      {R"({"items":[[[[[1]]]]]})", "nested more than 4 deep"},
      {"{\"user\":\"" + std::string(1 << 20, 'x') + "\"}", "longer than 1 MiB"}};
  std::string text = good;
  for (const auto& [line, problem] : bad) text += line + "\n";
  workspace.write("in", text + "\n  \n" + good);
  const Result result = workspace.bash("$PROGRAM recommend small.yaml --quiet --stream < in");
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<io::Json> answers = objects_of(result.out);
  ASSERT_EQ(answers.size(), bad.size() + 2);
  EXPECT_EQ(answers.front(), answers.back());
  EXPECT_EQ(answers.front()["items"].size(), 2U);
  for (std::size_t n = 0; n < bad.size(); ++n)
    EXPECT_NE(io::get_string(answers[n + 1], "error").find(bad[n].second), std::string::npos)
        << answers[n + 1];
  EXPECT_EQ(answers[3]["user"], 7);
}

TEST_F(Stream, LinesChooseItemsAndUnknownIdsAreCounted) {
  const auto known = lines_of(workspace.succeed("recommend small.yaml --quiet --top 60").out);
  const auto id = [&](int n) { return known.at(n).item; };
  workspace.write("in", format("{{\"items\":[{0}],\"keep_seen\":true,\"k\":60}}\n"
                               "{{\"items\":[{0},\"nothing\"],\"exclude\":[{1},\"x\"],\"k\":60}}\n"
                               "{{\"items\":[{0}],\"include\":[{1},{2}]}}\n",
                               id(0), id(1), id(2)));
  const Result result = workspace.bash("$PROGRAM recommend small.yaml --quiet --stream < in");
  const std::vector<io::Json> answers = objects_of(result.out);
  ASSERT_EQ(answers.size(), 3U) << result.err;
  EXPECT_EQ(answers[0]["items"].size(), 60U);
  EXPECT_EQ(answers[1]["items"].size(), 58U) << "neither the user's own item nor the excluded one";
  EXPECT_EQ(answers[1]["unknown"], 2);
  EXPECT_EQ(answers[2]["items"].size(), 2U);
}

// A caller that waits for the answer before it writes the next line is not kept waiting.
TEST_F(Stream, AnswersBeforeTheNextLineAndEndsWhenAsked) {
  const Result result = workspace.bash(
      "coproc P { exec $PROGRAM recommend small.yaml --quiet --stream; }\n"
      "pid=$P_PID\n"
      "for n in 1 2 3; do echo \"{\\\"user\\\":$n}\" >&${P[1]}; read -r -t 20 line <&${P[0]} && echo "
      "\"${line:0:9}\"; done\n"
      "kill -TERM $pid; wait $pid; echo \"code $?\"");
  EXPECT_EQ(result.out, "{\"user\":1\n{\"user\":2\n{\"user\":3\ncode 0\n") << result.err;
  workspace.refuse("recommend small.yaml --stream --input new.csv", "--input excludes --stream");
  workspace.refuse("recommend small.yaml --stream", "--stream: answers on one rank", 2);
}

}  // namespace
}  // namespace vaecf::app
