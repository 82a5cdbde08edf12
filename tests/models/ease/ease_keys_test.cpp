#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vaecf::models {
namespace {

TEST(EaseKeys, SearchStandsForListsExceptKeysThatAreSet) {
  const auto ease = [](const std::string& keys, const std::vector<std::string>& overrides = {}) {
    return config::parse("model: {type: ease, ease: {" + keys + "}}\n", "c.yaml", overrides)
        .options.model.ease;
  };
  using List = std::vector<double>;
  const EaseOptions standard = ease("search: standard");
  EXPECT_EQ(standard.user_power, (List{0.0, 0.5}));
  EXPECT_EQ(standard.l2, (List{30.0, 100.0, 300.0, 500.0, 1000.0}));
  EXPECT_EQ(standard.dropout, (List{0.0, 0.3, 0.5}));
  EXPECT_EQ(standard.relax, (List{0.0, 0.4}));
  EXPECT_EQ(standard.search, EaseSearch::off) << "stored as the lists that it stands for";
  EXPECT_EQ(ease("search: standard, l2: 50").l2, List{50.0});
  EXPECT_EQ(ease("search: standard", {"model.ease.dropout=0.2"}).dropout, List{0.2});
  EXPECT_EQ(ease("l2: 70", {"model.ease.search=standard"}).l2, List{70.0});
  EXPECT_EQ(ease("search: standard, kept_weight: [0, 4]").relax, List{0.0}) << "only one of both is possible";
  EXPECT_EQ(ease("search: off"), EaseOptions{});
  const config::Config stored = config::parse("model: {type: ease, ease: {search: standard}}\n", "c.yaml");
  EXPECT_TRUE(config::differences(config::parse_stored(stored.text, "stored"), stored).empty());
}

}  // namespace
}  // namespace vaecf::models
