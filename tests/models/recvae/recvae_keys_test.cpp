#include <gtest/gtest.h>

#include "config/read_text.hpp"
#include "models/recvae/recvae.hpp"

namespace vaecf::models {
namespace {

TEST(RecVaeKeys, KlWeightIsANumberOrNull) {
  EXPECT_EQ(own_options<RecVaeOptions>(config::read("").options.model).beta, 0.0);
  EXPECT_EQ(own_options<RecVaeOptions>(config::read("model: {recvae: {beta: 0.3}}").options.model).beta, 0.3);
  const config::Config off = config::read("model: {recvae: {beta: 0.3}}", {"model.recvae.beta=null"});
  EXPECT_EQ(own_options<RecVaeOptions>(off.options.model).beta, 0.0);
  expect_in(off.text, {"beta: null"});
  EXPECT_EQ(config::refusal("model: {recvae: {beta: 0}}"),
            "c.yaml:1: model.recvae.beta must be null or greater than 0, got \"0\"");
}

TEST(RecVaeKeys, WeightsOfThePriorAreThreeWithSumOne) {
  for (const std::string weights : {"[0.5, 0.5]", "[0.5, 0.4, 0.2]", "[1.0, 0.0, 0.0]"})
    expect_in(config::refusal("model: {recvae: {prior_weights: " + weights + "}}"),
              {"3 numbers greater than 0 with sum 1"});
}

}  // namespace
}  // namespace vaecf::models
