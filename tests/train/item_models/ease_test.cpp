#include "train/item_models/ease.hpp"

#include "train/item_models/item_models_fixture.hpp"

namespace vaecf::train {
namespace {

// Computed in NumPy from the papers' formulas, for item_model_users.
constexpr Weights ease = {{{0, .23168317, .18876404, .03177966, .08727273},
                           {.28676471, 0, .25168539, .04237288, .11636364},
                           {.20588235, .22178218, 0, .28177966, .05272727},
                           {.03676471, .03960396, .29887640, 0, .13818182},
                           {.11764706, .12673267, .06516854, .16101695, 0}}};
constexpr Weights edlae = {{{0, .19796476, .16681495, .03995253, .07717042},
                            {.24761344, 0, .22241993, .05327004, .10289389},
                            {.17678256, .18844813, 0, .22745253, .05498392},
                            {.04761344, .05075536, .25578292, 0, .11832797},
                            {.11314084, .12060680, .07606762, .14556962, 0}}};

TEST_F(ItemModels, EaseAndEdlaeWeightsEqualTheReference) {
  on_ranks(3, [](const RunContext& context) {
    const Interactions train = make_interactions(item_model_users, 5);
    expect_scores(Ease(train, 2.0, 0.0, context, 2), ease, 1e-6);
    expect_scores(Ease(train, 2.0, 0.25, context, 2), edlae, 1e-6);
  });
}

TEST_F(ItemModels, EaseOfAnIndefiniteMatrixThrowsOnAllRanks) {
  on_ranks(2, [](const RunContext& context) {
    Interactions train = make_interactions(Csr{{0, 2}, {0, 1}}, 2);  // equal columns: X'X is singular
    EXPECT_NE(message_of<InputError>([&] {
                Ease(train, 1e-30, 0.0, context, 1);
              }).find("model.ease.l2: with 1e-30"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace vaecf::train
