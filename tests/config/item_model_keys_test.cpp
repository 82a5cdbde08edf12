#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/keys.hpp"
#include "support/messages.hpp"

namespace vaecf::config {
namespace {

Config parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse(text, "c.yaml", overrides);
}

/// Returns the message of the InputError that `text` causes.
std::string refused(const std::string& text) {
  return message_of<InputError>([&] { parsed(text); });
}

TEST(ItemModelKeys, SearchOfEaseStandsForListsExceptKeysThatAreSet) {
  const auto ease = [](const std::string& keys, const std::vector<std::string>& overrides = {}) {
    return parsed("model: {type: ease, ease: {" + keys + "}}\n", overrides).options.model.ease;
  };
  using List = std::vector<double>;
  const models::EaseOptions standard = ease("search: standard");
  EXPECT_EQ(standard.user_power, (List{0.0, 0.5}));
  EXPECT_EQ(standard.l2, (List{100.0, 300.0, 500.0, 1000.0}));
  EXPECT_EQ(standard.dropout, (List{0.0, 0.3, 0.5}));
  EXPECT_EQ(standard.relax, (List{0.0, 0.4}));
  EXPECT_EQ(standard.search, models::EaseSearch::off) << "stored as the lists that it stands for";
  EXPECT_EQ(ease("search: standard, l2: 50").l2, List{50.0});
  EXPECT_EQ(ease("search: standard", {"model.ease.dropout=0.2"}).dropout, List{0.2});
  EXPECT_EQ(ease("l2: 70", {"model.ease.search=standard"}).l2, List{70.0});
  EXPECT_EQ(ease("search: standard, kept_weight: [0, 4]").relax, List{0.0}) << "only one of both is possible";
  EXPECT_EQ(ease("search: off"), models::EaseOptions{});
  const Config stored = parsed("model: {type: ease, ease: {search: standard}}\n");
  EXPECT_TRUE(differences(parse_stored(stored.text, "stored"), stored).empty());
}

TEST(ItemModelKeys, RelaxAndKeptWeightExcludeEachOther) {
  EXPECT_EQ(refused("model:\n  ease:\n    relax: [0, 0.4]\n    kept_weight: 2\n"),
            "c.yaml:4: model.ease.kept_weight and model.ease.relax both have values other than 0; set one of "
            "them to 0");
  EXPECT_NO_THROW(parsed("model: {ease: {relax: 0.4, kept_weight: 0}}\n"));
  EXPECT_TRUE(
      refused("model: {ease: {relax: 1.5}}\n").starts_with("c.yaml:1: model.ease.relax must be a number"));
  EXPECT_TRUE(
      refused("model: {ease: {user_power: 3}}\n").starts_with("c.yaml:1: model.ease.user_power must be"));
}

TEST(ItemModelKeys, TargetPowerIsOneMinusSourcePowerUnlessSet) {
  const auto knn = [](const std::string& keys) {
    return parsed("model: {item_knn: {" + keys + "}}\n").options.model.item_knn;
  };
  EXPECT_EQ(knn("source_power: 0.75").resolved_target_power(), 0.25);
  EXPECT_EQ(knn("source_power: 0.75, target_power: auto").resolved_target_power(), 0.25);
  EXPECT_EQ(knn("source_power: 0.75, target_power: 0").resolved_target_power(), 0.0);
}

}  // namespace
}  // namespace vaecf::config
