// Updates fused into the weight gradient, on devices that support it: same results as separate operations.
#include "device/contract/contract.hpp"

#include <vaecf/base/format.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace vaecf::testing {
namespace {

using device::TensorKind;
using device::UpdateRule;

class Fused : public LayerContract {
 protected:
  struct Side {
    TestLayer layer;
    TestMoments moments;
    std::unique_ptr<Device::Activations> d_hidden;
  };
  Side make_side(TensorKind kind, std::int64_t width, std::int64_t items, std::int64_t users) {
    const bool input = kind == TensorKind::input_table;
    TestLayer layer = random_layer(kind, input ? items : width, input ? width : items);
    TestMoments moments = make_moments(layer);
    return {std::move(layer), std::move(moments), device().make_activations(users, width)};
  }
  void expect_near_same(const Side& fused, const Side& apart) {
    const Tolerance tight{1e-6, 1e-6, 1e-7};
    const auto near = [&](const std::vector<float>& a, const std::vector<float>& b, const char* what) {
      expect_near(a, Matrix(1, static_cast<std::int64_t>(b.size()), b), tight, what);
    };
    near(read(*fused.d_hidden), read(*apart.d_hidden), "d_hidden");
    near(flat(fused.layer.parameters->master()), flat(apart.layer.parameters->master()), "weights");
    near(flat(*fused.moments.first), flat(*apart.moments.first), "first moment");
    near(flat(*fused.moments.second), flat(*apart.moments.second), "second moment");
    expect_zero_padding(fused.layer.layout, fused.layer.parameters->master());
    expect_zero_padding(fused.layer.layout, *fused.moments.second);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Fused, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(Fused, EqualsSeparateOperations) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 700;
  TestBatch batch;
  for (const UpdateRule& rule : update_rules) {
    Side apart = make_side(TensorKind::output_table, width, items, 1500);
    Side fused = make_side(TensorKind::output_table, width, items, 1500);
    std::uint32_t number = 0;
    // 1500 users are several slices; each step starts from the weights and copies that the previous one
    // wrote.
    for (const std::int64_t users : {33, 1500, 1, 0, 257}) {
      SCOPED_TRACE(format("rule {} decay {} users {}", static_cast<int>(rule.kind), rule.decay, users));
      gather(random_rows(users, items, 1), items, true, batch);
      const auto hidden = activations(random_matrix(users, width, 2 + number, 0.5F));

      begin({1, number}, 0.0F, rule);
      softmax_step(*hidden, batch, apart.layer, step(), *apart.d_hidden);
      update(apart.layer, apart.moments);
      const device::LossSums expected = losses();

      begin({1, number}, 0.0F, rule);
      const FusedUpdate fusing{*fused.layer.parameters, *fused.moments.first, *fused.moments.second};
      int reports = 0;
      softmax_step(
          *hidden, batch, fused.layer, step(), *fused.d_hidden,
          [&](Range, device::EventHandle) { ++reports; }, &fusing);
      const device::LossSums found = losses();
      EXPECT_EQ(reports, 0);
      EXPECT_NEAR(found.nll, expected.nll, 1e-6 * expected.nll);
      EXPECT_EQ(found.users, users);
      expect_near_same(fused, apart);
      ++number;
    }
  }
}

TEST_P(Fused, InputTableEqualsSeparateOperations) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 700;
  TestBatch batch;
  for (const UpdateRule& rule : update_rules) {
    Side apart = make_side(TensorKind::input_table, width, items, 40);
    Side fused = make_side(TensorKind::input_table, width, items, 40);
    const FusedUpdate fusing{*fused.layer.parameters, *fused.moments.first, *fused.moments.second};
    std::uint32_t number = 0;
    for (const std::int64_t users : {33, 1, 0, 40}) {
      SCOPED_TRACE(format("rule {} decay {} users {}", static_cast<int>(rule.kind), rule.decay, users));
      gather(random_rows(users, items, 1 + number), items, true, batch);
      const auto output = activations(random_matrix(users, width, 2 + number, 0.5F));
      begin({1, number++}, 0.0F, rule);
      for (Side* side : {&apart, &fused}) {
        write(*side->d_hidden, random_matrix(users, width, 9, 0.5F));
        device().sparse_linear_backward(*batch.device, side->layer.layout, side->layer.layer,
                                        device::Activation::tanh, 0.5F, step(), *output, *side->d_hidden,
                                        *side->layer.gradients, {}, side == &fused ? &fusing : nullptr);
      }
      update(apart.layer, apart.moments);
      expect_near_same(fused, apart);
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
