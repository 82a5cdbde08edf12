// Exchanges of the CUDA device with other item slices, captured in graphs.
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::testing {
namespace {

/// The first of two item slices, which exchanges with itself on a stream of its own, as NCCL does: the other
/// item slice has the same activations, and adds nothing to sums.
class EchoGroup final : public device::ModelParallelGroup {
 public:
  int count() const override { return 2; }
  int index() const override { return 0; }
  device::EventHandle reduce_scatter(std::span<const float> all, std::span<float> part,
                                     device::EventHandle after) override {
    stream_.wait_event(after.event);
    stream_.copy(part.data(), all.data(), static_cast<std::int64_t>(part.size_bytes()));
    return finish();
  }
  device::EventHandle all_gather(std::span<const float> part, std::span<float> all,
                                 device::EventHandle after) override {
    return gather(part, all, after);
  }
  device::EventHandle all_gather(std::span<const Bf16> part, std::span<Bf16> all,
                                 device::EventHandle after) override {
    return gather(part, all, after);
  }

 private:
  template <class T>
  device::EventHandle gather(std::span<const T> part, std::span<T> all, device::EventHandle after) {
    stream_.wait_event(after.event);
    for (std::size_t s = 0; s < 2; ++s) {
      stream_.copy(all.data() + s * part.size(), part.data(), static_cast<std::int64_t>(part.size_bytes()));
    }
    return finish();
  }
  device::EventHandle finish() {
    cuda::Event& event = events_[next_++ % events_.size()];
    stream_.record(event);
    return {event.native()};
  }

  cuda::Stream stream_;
  std::vector<cuda::Event> events_{64};
  std::size_t next_ = 0;
};

class CudaSlices : public Contract {
 protected:
  /// Trains an input and an output layer for some steps, captured or not. Returns weights and losses.
  std::vector<double> train(bool captured);
};
INSTANTIATE_TEST_SUITE_P(Devices, CudaSlices, ::testing::ValuesIn(contract_devices()), contract_name);

std::vector<double> CudaSlices::train(bool captured) {
  constexpr std::int64_t users = 9;
  constexpr std::int64_t items = 33;
  constexpr std::int64_t width = 5;
  EchoGroup model_parallel;
  const std::int64_t local_items = model_parallel.item_slice(items).count();
  TestLayer input = random_layer(device::TensorKind::input_table, local_items, width);
  TestLayer output = random_layer(device::TensorKind::output_table, width, local_items);
  TestMoments of_input = make_moments(input);
  TestMoments of_output = make_moments(output);
  const Csr rows = weigh(random_rows(users, local_items, 1));
  std::vector<RowTotals> totals = totals_of(rows.view());
  std::vector<std::int64_t> order;
  for (std::int64_t u = 0; u < users; ++u) {
    const auto others = static_cast<float>(u);  // the sum of values in the other item slice
    totals[static_cast<std::size_t>(u)].sum += others;
    totals[static_cast<std::size_t>(u)].norm += others;
    order.push_back(u);
  }
  const auto stored = device().make_user_rows({rows.view(), totals}, 1000, items, model_parallel);
  const auto batch = device().make_batch();
  device().gather_batch(*stored, order, true, *batch);
  const std::int64_t part = model_parallel.part_rows(users);
  auto hidden = device().make_matrix(part, width);
  auto d_hidden = device().make_matrix(part, width);
  const device::InputScaling scaling(0.5F);
  const auto work = [&] {
    device().sparse_linear(*batch, input.parameters, input.layer, device::Activation::tanh, scaling, step(),
                           nullptr, hidden);
    device().output_layer_step(device::Loss::multinomial, hidden, *batch, output.layer,
                               device::OutputGradients::both, d_hidden, backward(output));
    device().sparse_linear_backward(*batch, input.layer, device::Activation::tanh, scaling, hidden, d_hidden,
                                    backward(input));
    update(output, of_output);
    update(input, of_input);
    device().end_step(step());
  };
  std::vector<double> results;
  std::unique_ptr<device::Graph> graph;
  for (std::uint32_t s = 0; s < 4; ++s) {
    begin({5, s}, 0.0F, update_rules[0]);
    if (graph != nullptr) {
      EXPECT_TRUE(device().replay(*graph));
    } else if (captured) {
      graph = device().capture(work);
      EXPECT_NE(graph, nullptr);
    } else {
      work();
    }
    const device::LossSums losses = device().sums(step()).losses;
    EXPECT_EQ(losses.users, part);
    results.push_back(losses.nll);
  }
  for (const TestLayer* layer : {&input, &output}) {
    for (const float weight : flat(layer->parameters.master())) results.push_back(weight);
  }
  return results;
}

TEST_P(CudaSlices, ExchangesAreCapturedInGraphs) {
  const std::vector<double> expected = train(false);
  EXPECT_EQ(train(true), expected);
  EXPECT_NE(expected[0], expected[3]);
  for (const double value : expected) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace vaecf::testing
