#include <vaecf/base/text.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/models/kind.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/read_text.hpp"
#include "models/ease/ease_model.hpp"

namespace vaecf::models {
namespace {

TEST(EaseKeys, SearchStandsForListsExceptKeysThatAreSet) {
  const auto ease = [](const std::string& keys, const std::vector<std::string>& overrides = {}) {
    return own_options<EaseOptions>(
        config::parse("model: {type: ease, ease: {" + keys + "}}\n", "c.yaml", overrides).options.model);
  };
  using List = std::vector<double>;
  const EaseOptions standard = ease("search: standard");
  EXPECT_EQ(standard.user_power, (List{0.0, 0.5}));
  EXPECT_EQ(standard.l2, List{}) << "auto";
  EXPECT_EQ(standard.dropout, (List{0.0, 0.3, 0.5}));
  EXPECT_EQ(standard.relax, (List{0.0, 0.4}));
  EXPECT_EQ(standard.search, EaseSearch::none) << "stored as the lists that it stands for";
  EXPECT_EQ(ease("search: standard, l2: 50").l2, List{50.0});
  EXPECT_EQ(ease("search: standard", {"model.ease.dropout=0.2"}).dropout, List{0.2});
  EXPECT_EQ(ease("l2: 70", {"model.ease.search=standard"}).l2, List{70.0});
  EXPECT_EQ(ease("search: standard, kept_weight: [0, 4]").relax, List{0.0}) << "only one of both is possible";
  EXPECT_EQ(ease("search: null"), EaseOptions{});
  const config::Config stored = config::parse("model: {type: ease, ease: {search: standard}}\n", "c.yaml");
  EXPECT_TRUE(config::differences(config::parse_stored(stored.text, "stored"), stored).empty());
}

TEST(EaseKeys, AutomaticL2IsAListIfItsValuesCanBeCompared) {
  const auto values = [](const std::string& keys, SolvedKind::Purpose purpose, bool compares) {
    const ModelOptions options =
        config::parse("model: {type: ease, ease: {" + keys + "}}\n", "c.yaml").options.model;
    const auto search = kind_of(ModelType::ease).solved()->search(options, purpose, compares);
    std::vector<std::string> l2;
    for (std::int64_t n = 0; n < search->size(); ++n)
      for (const auto& [name, value] : search->values(n))
        if (name == "l2") l2.push_back(format("{}", std::get<double>(value)));
    return join(l2);
  };
  using enum SolvedKind::Purpose;
  for (const auto purpose : {run, baseline}) {
    EXPECT_EQ(values("l2: auto", purpose, true), "30, 100, 300, 500, 1000");
    EXPECT_EQ(values("", purpose, false), "500");
    EXPECT_EQ(values("l2: [7, 9]", purpose, true), "7, 9");
  }
  EXPECT_EQ(values("l2: [7, 9]", run, false), "7, 9") << "an error of the run";
  EXPECT_EQ(values("l2: [7, 9]", baseline, false), "7");
}

TEST(EaseKeys, ValuesOutOfRangeAreErrors) {
  EXPECT_EQ(
      config::refusal("model:\n  ease:\n    relax: [0, 0.4]\n    kept_weight: 2\n"),
      "c.yaml:4: model.ease.kept_weight and model.ease.relax both have values other than 0; set one of them to 0");
  expect_in(config::refusal("model: {ease: {relax: 1.5}}\n"),
            {"c.yaml:1: model.ease.relax must be a number"});
  expect_in(config::refusal("model: {ease: {user_power: 3}}\n"), {"c.yaml:1: model.ease.user_power must be"});
}

TEST(EaseKeys, SolutionsThatDifferInColumnsOnlyHaveOneInverse) {
  EXPECT_EQ(inverses_of(combinations(
                {.l2 = {20.0, 50.0}, .dropout = {0.3}, .user_power = {0.0, 0.5}, .relax = {0.0, 0.4}})),
            4);
  EXPECT_EQ(inverses_of(combinations({.l2 = {5.0}, .relax = {0.0, 0.4}, .feature_weight = {0.0, 3.0}})), 2);
}

}  // namespace
}  // namespace vaecf::models
