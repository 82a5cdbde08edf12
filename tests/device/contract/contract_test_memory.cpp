#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::ParameterLayout;
using device::TensorKind;
using device::TensorSpec;

class Memory : public Contract {
 protected:
  /// Makes a buffer that begins with `values`.
  device::Buffer buffer_of(const std::vector<float>& values) {
    const auto size = static_cast<std::int64_t>(values.size());
    const ParameterLayout row =
        device().plan_parameters(std::vector<TensorSpec>{{"row", 1, size, TensorKind::bias, false}});
    auto buffer = device().make_buffer(row.size);
    device().import_rows(row, 0, {0, 1}, values, buffer);
    return buffer;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Memory, ::testing::ValuesIn(contract_devices()), contract_name);

/// Returns the tensors of a complete model, in the order in which gradients are completed.
std::vector<TensorSpec> model_tensors(std::int64_t items, std::int64_t hidden, std::int64_t latents) {
  return {{"decoder_2/weight", hidden, items, TensorKind::output_table, true},
          {"decoder_2/bias", 1, items, TensorKind::output_bias, false},
          {"decoder_1/weight", latents, hidden, TensorKind::matrix, true},
          {"decoder_1/bias", 1, hidden, TensorKind::bias, false},
          {"encoder_1/weight", items, hidden, TensorKind::input_table, true},
          {"encoder_1/bias", 1, hidden, TensorKind::bias, false}};
}

struct Shape {
  std::int64_t items;
  std::int64_t hidden;
  std::int64_t latents;
};
constexpr Shape shapes[] = {{1, 1, 1}, {33, 7, 3}, {257, 32, 31}, {1000, 33, 5}};

TEST_P(Memory, DescriptionNamesDeviceAndPrecision) {
  const device::DeviceFacts facts = device().facts();
  EXPECT_FALSE(facts.description.empty());
  EXPECT_TRUE(GetParam().name.starts_with(to_string(facts.kind)));
  EXPECT_NE(facts.precision, device::Precision::automatic);
  EXPECT_GE(facts.threads, 1);
  EXPECT_GE(facts.evaluation_batch, 1);
  EXPECT_EQ(device().output_bytes({1000, 0, 1}, 100) > 0, facts.kind == device::DeviceKind::cpu);
}

TEST_P(Memory, MastersOfATiledLayoutStoreRangesOfRowsBitwise) {
  for (const Shape& shape : shapes) {
    const auto specs = model_tensors(shape.items, shape.hidden, shape.latents);
    const ParameterLayout layout = device().plan_parameters(specs);
    ASSERT_EQ(layout.tensors.size(), specs.size());
    std::int64_t next = 0;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(layout.tensors[i].spec.name, specs[i].name);
      EXPECT_EQ(layout.tensors[i].spec.decays, specs[i].decays);
      EXPECT_EQ(layout.tensors[i].range.begin, next);
      EXPECT_GE(layout.tensors[i].range.size(), specs[i].rows * specs[i].columns);
      EXPECT_EQ(layout.find(specs[i].name), static_cast<int>(i));
      next = layout.tensors[i].range.end;
      count += specs[i].rows * specs[i].columns;
    }
    EXPECT_EQ(layout.size, next);
    EXPECT_EQ(layout.parameter_count(), count);
    for (const std::int64_t extra : {-1, 0, 1000}) {
      auto parameters = device().make_parameters(layout, layout.size + extra);
      EXPECT_GE(parameters.master().size(), layout.size + std::max<std::int64_t>(0, extra));
      for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
        const TensorSpec& spec = layout.tensors[i].spec;
        const auto tensor = static_cast<int>(i);
        const std::vector<float> values = random_values(spec.rows * spec.columns, 10 + i);
        const auto part = [&](Range rows) {
          return std::vector<float>(values.begin() + rows.begin * spec.columns,
                                    values.begin() + rows.end * spec.columns);
        };
        const std::int64_t cut = (spec.rows + 2) / 3;
        for (const Range rows : {Range{cut, spec.rows}, Range{0, cut}, Range{cut, cut}})
          device().import_rows(layout, tensor, rows, part(rows), parameters.master());
        for (const Range rows :
             {Range{0, cut}, Range{cut, spec.rows}, Range{spec.rows - 1, spec.rows}, Range{0, spec.rows}}) {
          std::vector<float> got(static_cast<std::size_t>(rows.size() * spec.columns));
          device().export_rows(layout, tensor, rows, parameters.master(), got);
          EXPECT_EQ(got, part(rows)) << spec.name;
        }
        device().refresh_copies(parameters, layout.tensors[i].range);
        double squares = 0.0;
        for (const double x : values) squares += x * x;
        EXPECT_NEAR(device().sum_of_squares(parameters, tensor), squares, 1e-6 * squares);
      }
      expect_zero_padding(layout, parameters.master());
    }
  }
}

TEST_P(Memory, ExporterReadsInAnotherThreadWhatWasCopiedBefore) {
  const ParameterLayout layout = device().plan_parameters(model_tensors(257, 33, 5));
  auto live = device().make_buffer(layout.size);
  auto copy = device().make_buffer(layout.size);
  const auto exporter = device().make_exporter();
  EXPECT_GT(device().spare_bytes(), 0);
  for (int round = 1; round <= 3; ++round) {
    device().fill(live, static_cast<float>(round));
    device().copy(live, {0, layout.size}, copy, 0);
    exporter->wait_event(device().record_event());
    device().fill(live, -1.0F);  // training continues
    std::thread([&] {
      for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
        const TensorSpec& spec = layout.tensors[i].spec;
        std::vector<float> got(static_cast<std::size_t>(spec.columns));
        exporter->export_rows(layout, static_cast<int>(i), {spec.rows - 1, spec.rows}, copy, got);
        EXPECT_EQ(got, std::vector<float>(got.size(), static_cast<float>(round))) << spec.name;
      }
    }).join();
  }
}

TEST_P(Memory, BuffersAreZeroInitializedAndFill) {
  for (const std::int64_t size : {0, 1, 31, 257, 100000}) {
    auto buffer = device().make_buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(flat(buffer), std::vector<float>(static_cast<std::size_t>(size), 0.0F));
    device().fill(buffer, -1.5F);
    device().synchronize();
    EXPECT_EQ(flat(buffer), std::vector<float>(static_cast<std::size_t>(size), -1.5F));
  }
}

/// Returns ordinary values mixed with values that 16-bit formats must round carefully.
Matrix awkward_numbers(std::int64_t n) {
  Matrix values = random_matrix(1, n, 60, 100.0F);
  const float special[] = {0.0F, -0.0F, 1.00390625F, 1.01171875F, 3.4e38F, -INFINITY, 1e-40F, 65520.0F};
  for (std::int64_t i = 0; i < n; i += 3) values.values[static_cast<std::size_t>(i)] = special[i / 3 % 8];
  return values;
}

// Nothing outside of the given range changes.
TEST_P(Memory, CopiesAndBf16CastsOfRanges) {
  constexpr std::int64_t size = 600;
  const std::vector<float> values = awkward_numbers(size).floats();
  auto from = buffer_of(values);
  for (const std::int64_t n : {0, 1, 31, 32, 33, 257}) {
    for (const std::int64_t begin : {0, 5, 64}) {
      SCOPED_TRACE(n);
      auto bf16 = device().make_bf16_buffer(size);
      EXPECT_EQ(bf16.size(), size);
      auto to = device().make_buffer(size);
      device().fill(to, 9.0F);
      const std::int64_t at = begin == 5 ? 0 : begin + 3;
      device().cast_to_bf16(from, {begin, begin + n}, bf16, at);
      device().cast_to_fp32(bf16, {at, at + n}, to, 7);
      std::vector<float> expected(size, 9.0F);
      for (std::int64_t i = 0; i < n; ++i) expected[7 + i] = vaecf::round_to_bf16(values[begin + i]);
      EXPECT_EQ(flat(to), expected);
      device().copy(from, {begin, begin + n}, to, 17);
      for (std::int64_t i = 0; i < n; ++i) expected[17 + i] = values[begin + i];
      EXPECT_EQ(flat(to), expected);
    }
  }
}

// Weights that arrive range by range, for example from other ranks: products must read all of them.
TEST_P(Memory, WeightsChangedUpdatesCopiesOfTheRange) {
  const std::int64_t users = 33;
  TestBatch batch;
  gather(random_rows(users, 257, 1), 257, true, batch);
  const auto hidden = activations(random_matrix(users, 40, 2));
  for (const TensorKind kind : {TensorKind::output_table, TensorKind::matrix}) {
    const Matrix weight = random_matrix(40, 257, 3);
    const Matrix bias = random_matrix(1, 257, 4);
    TestLayer whole = make_layer(kind, weight, bias);
    TestLayer pieces = make_layer(kind, random_matrix(40, 257, 5), random_matrix(1, 257, 6));
    const std::int64_t size = pieces.layout.size;
    std::int64_t begin = 0;
    for (const std::int64_t end : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}, size - 3, size}) {
      device().copy(whole.parameters.master(), {begin, end}, pieces.parameters.master(), begin);
      device().refresh_copies(pieces.parameters, {begin, end});
      begin = end;
    }
    const auto output_of = [&](TestLayer& layer) {
      if (kind == TensorKind::matrix) {
        auto output = device().make_matrix(users, 257);
        device().linear(hidden, layer.parameters, layer.layer, device::Activation::identity, output);
        return read(output);
      }
      auto d_hidden = device().make_matrix(users, 40);
      softmax_step(hidden, batch, layer, this->begin(), d_hidden);
      return read(d_hidden);
    };
    EXPECT_EQ(output_of(pieces), output_of(whole));
  }
}

TEST_P(Memory, MeasuresPeakRates) {
  if (!GetParam().fast) GTEST_SKIP() << "a large product by plain loops takes too long";
  const double rate = device().measure(device::Rate::gemm, std::int64_t{1} << 26);
  EXPECT_GT(rate, 0.0);
  EXPECT_TRUE(std::isfinite(rate));
  const double memory = device().measure(device::Rate::memory, std::int64_t{1} << 26);
  EXPECT_GT(memory, 0.01) << "GB/s: even a loaded machine copies faster";
  EXPECT_LT(memory, 1e6) << "GB/s";
  EXPECT_GT(device().measure(device::Rate::gemm, 0), 0.0) << "small operands if no memory is free";
  EXPECT_GT(device().measure(device::Rate::memory, 0), 0.0);
}

TEST_P(Memory, StopwatchMeasuresOperations) {
  const auto timer = device().make_timer();
  EXPECT_TRUE(timer->elapsed().empty());
  auto small = device().make_buffer(64);
  auto large = device().make_buffer(std::int64_t{1} << 16);
  const auto begin = std::chrono::steady_clock::now();
  timer->record();
  for (int i = 0; i < 4; ++i) device().fill(large, 1.0F);
  timer->record();
  device().fill(small, 1.0F);
  timer->record();
  const std::vector<double> seconds = timer->elapsed();
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(seconds.size(), 2U);
  EXPECT_GT(seconds[0], 0.0);
  EXPECT_GE(seconds[1], 0.0);
  EXPECT_LE(seconds[0] + seconds[1], 1.01 * all.count() + 1e-4);
  EXPECT_TRUE(timer->elapsed().empty()) << "read() removes all marks";
  timer->record();
  EXPECT_TRUE(timer->elapsed().empty()) << "a single mark ends no interval";
}

}  // namespace
}  // namespace vaecf::testing
