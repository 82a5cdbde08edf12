// Decaying moments: without a gradient, a row's first moment loses a tenth per step. After some hundred steps
// it would be denormal, which makes arithmetic many times slower.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "device/cpu/device.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {

using device::Activation;
using device::OptimizerKind;
using device::ParameterLayout;
using device::Precision;
using device::TensorKind;
using device::TensorSpec;
using device::UpdateRule;

namespace {

constexpr std::int64_t row_width = 48;
constexpr std::int64_t item_count = 256;
constexpr float min_normal = std::numeric_limits<float>::min();

std::vector<float> all_of(std::initializer_list<std::reference_wrapper<const Buffer>> buffers) {
  std::vector<float> all;
  for (const Buffer& buffer : buffers) all.insert(all.end(), buffer.data(), buffer.data() + buffer.size());
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Changes weights and moments in every way that a step does, starting from moments that are almost denormal.
std::vector<float> train_layers(OptimizerKind optimizer, int users) {
  const UpdateRule rule{optimizer, 1e-3F, 0.9F, 0.9F, 1e-8F, 1.0F / 500, 0.0F};
  const auto device =
      make_device({.device = device::DeviceChoice::cpu, .precision = Precision::fp32, .threads = 3});
  const TensorSpec specs[] = {{"decoder_1/weight", row_width, item_count, TensorKind::output_table, false},
                              {"decoder_1/bias", 1, item_count, TensorKind::output_bias, false},
                              {"encoder_1/weight", item_count, row_width, TensorKind::input_table, false},
                              {"encoder_1/bias", 1, row_width, TensorKind::bias, false}};
  const ParameterLayout layout = device->plan_parameters(specs);
  auto parameters = device->make_parameters(layout, 0);
  auto first = device->make_buffer(layout.size);
  auto second = device->make_buffer(layout.size);
  auto gradients = device->make_buffer(layout.size);
  for (std::int64_t i = 0; i < layout.size; ++i) {
    parameters.master().data()[i] = i % 5 == 0 ? 1e-37F : 0.01F * static_cast<float>(i % 7 - 3);
    first.data()[i] = (i % 2 == 0 ? -1.0F : 1.0F) * 2e-37F / static_cast<float>(1 + i % 50);
    if (optimizer != OptimizerKind::sgd) second.data()[i] = 1e-37F / static_cast<float>(1 + i % 30);
  }
  Csr rows;
  for (std::int32_t u = 0; u < users; ++u) {
    for (std::int32_t item = u; item < item_count; item += 40) rows.columns.push_back(item);
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  const auto held = device->make_user_rows(rows.view(), 0, item_count, device::single_rank());
  std::vector<std::int64_t> all(static_cast<std::size_t>(users));
  std::iota(all.begin(), all.end(), 0);
  const auto batch = device->make_batch();
  auto hidden = device->make_matrix(8, row_width);
  auto d_hidden = device->make_matrix(8, row_width);
  const auto step = device->make_step_state();
  const device::GradientReady unreported;
  const FusedUpdate fused{parameters, first, second};
  const device::Backward backward{parameters, *step, gradients, unreported, &fused};
  const device::UpdateRange bias{layout.tensors[3].range, false};
  for (std::uint32_t s = 0; s < 30; ++s) {
    device->begin_step({.step = s, .rule = rule}, *step);
    device->gather_batch(*held, all, true, *batch);
    device->sparse_linear(*batch, parameters, {2, 3}, Activation::tanh, 0.5F, *step, nullptr, hidden);
    device->output_layer_step(device::Loss::multinomial, hidden, *batch, {0, 1},
                              device::OutputGradients::both, d_hidden, backward);
    device->sparse_linear_backward(*batch, {2, 3}, Activation::tanh, 0.5F, hidden, d_hidden, backward);
    device->update({&bias, 1}, gradients, {first, second}, parameters, *step);
  }
  return all_of({parameters.master(), first, second});
}

// Called by the main thread, by another thread, and by a thread that already flushes denormals.
TEST(Denormals, AreFlushedOnAllThreadsInAnyModeOfTheCaller) {
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::rmsprop, OptimizerKind::sgd}) {
    for (const int users : {0, 7}) {
      SCOPED_TRACE(::testing::Message() << "rule " << static_cast<int>(kind) << ", " << users << " users");
      const std::vector<float> values = train_layers(kind, users);
      for (const float x : values) ASSERT_TRUE(x == 0.0F || std::abs(x) >= min_normal) << x;
      std::vector<float> of_thread;
      std::vector<float> of_flushing_thread;
      std::thread([&] { of_thread = train_layers(kind, users); }).join();
      std::thread([&] {
        const FlushDenormals guard;
        of_flushing_thread = train_layers(kind, users);
      }).join();
      EXPECT_TRUE(same_bits(values, of_thread));
      EXPECT_TRUE(same_bits(values, of_flushing_thread));
    }
  }
}

}  // namespace
}  // namespace vaecf::cpu
