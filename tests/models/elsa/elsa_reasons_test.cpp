#include <cmath>
#include <numeric>

#include "models/elsa/elsa.hpp"
#include "run/reasons_fixture.hpp"

namespace vaecf::training {
namespace {

using ElsaReasons = RecommendReasons;

// The own item of a list with seen items contributes x_i / |x|.
TEST_F(ElsaReasons, AreProductsOfItems) {
  options_.model.type = ModelType::elsa;
  own_options<models::ElsaOptions>(options_.model).factors = 12;
  options_.validation.baselines = {};
  train_and_take();
  std::vector<float> table(60 * 12);
  io::CheckpointFile(checkpoint_).read_rows("weights/items/weight", 0, 60, table);
  const auto product = [&](std::int32_t i, std::int32_t j) {
    const float* a = &table[static_cast<std::size_t>(i) * 12];
    const float* b = &table[static_cast<std::size_t>(j) * 12];
    return std::inner_product(a, a + 12, b, 0.0);
  };
  for (const int ranks : {1, 2}) {
    options_.distributed.item_slices = ranks;
    for (const Csr& histories : make_histories()) {
      const auto truth = [&](std::size_t user, std::int32_t i, std::int32_t j) {
        double squares = 0.0;
        for (const std::int32_t other : histories.view().row(static_cast<std::int64_t>(user)))
          squares += std::pow(value_of(histories, user, other), 2.0);
        return value_of(histories, user, i) * product(i, j) /
               std::sqrt(product(i, i) * product(j, j) * squares);
      };
      on_ranks(ranks, [&](const run::Run& run) {
        const Explained found = explain(run, {60, true, {}, 25}, histories.view());
        expect_reasons(found, histories.view(), 25, truth, 1e-6);
        for (std::size_t place = 180; place < 240; ++place) {  // of user 3, who has 20 items
          const auto all = std::span(found.contributions).subspan(place * 25, 20);
          EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), found.scores[place], 1e-5);
        }
        expect_error<std::logic_error>({"add up to"}, [&] {
          explain(run, {3, false, {}, 1}, histories.view(), {}, 1e-3F);
        });
      });
    }
  }
}

}  // namespace
}  // namespace vaecf::training
