// The CUDA device's layers at sizes that the other tests do not reach: batches in several item slices, sums
// over thousands of rows, items with thousands of users in a batch, users with thousands of items, gradients
// too large for the cache, and the largest loss scale.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

/// Returns the devices whose kernels differ by precision.
std::vector<ContractDevice> devices(bool with_small) {
  std::vector<ContractDevice> all = contract_devices();
  std::erase_if(all, [](const ContractDevice& device) {
    return device.name.ends_with("_tf32") || device.name.ends_with("_host_rows");
  });
  for (ContractDevice& small : small_devices(256)) {
    if (with_small) all.push_back(std::move(small));
  }
  return all;
}

class CudaLayers : public Sliced {};
INSTANTIATE_TEST_SUITE_P(Devices, CudaLayers, ::testing::ValuesIn(devices(true)), contract_name);

// On small devices three blocks of users in fp32 and two in 16 bits; rows of four segments.
TEST_P(CudaLayers, BlocksOfUsersAddUp) {
  const bool small = GetParam().name.ends_with("_small");
  if (GetParam().name.starts_with("cuda_emulated") && !small)
    GTEST_SKIP() << "only small devices need blocks";
  const OutputCase all = random_output({300, 60000, 2, true, low_precision()}, 1);
  const std::int64_t all_logits = all.hidden.rows * all.weight.columns * (low_precision() ? 2 : 4);
  // The host emulation adds 60,000 products one by one.
  const OutputStep found =
      expect_output_step(1, all, low_precision() ? tolerance() : Tolerance{2e-5, 5e-5, 2e-6});
  EXPECT_EQ(small, found.peak_bytes < all_logits);
}

// Sums over a million items; on a GPU in 16 bits with more than 2^31 logits at once. Eight users, of whom one
// has no items, occur again and again, so that fp64 sums of these eight are enough. Weights and hidden units
// are exact in bf16. Tensor cores cut what they add, by up to 2^-23 of the sum so far, every 16 items.
TEST_P(CudaLayers, LargestProductsEqualSumsInFp64) {
  const bool gpu = !GetParam().name.starts_with("cuda_emulated");
  constexpr std::int64_t items = 1000192;
  constexpr std::int64_t users = 8;
  const std::int64_t width = gpu ? 64 : 8;
  const std::int64_t copies = gpu ? 275 : 1;
  const auto exact = [](Matrix values) {
    for (double& value : values.values) value = from_bf16(to_bf16(static_cast<float>(value)));
    return values;
  };
  HostBatch once;
  once.items = items;
  once.rows.offsets = {0};
  for (std::int64_t user = 0; user < users; ++user) {
    for (std::int64_t k = 0; k < 10 * user; ++k)
      once.rows.columns.push_back(static_cast<std::int32_t>((13 * k + user) * 1009 % items));
    std::sort(once.rows.columns.begin() + once.rows.offsets.back(), once.rows.columns.end());
    once.rows.offsets.push_back(std::ssize(once.rows.columns));
    once.users.push_back(0);
  }
  // Logits are -9 +- 2.5, as after a few epochs.
  const Matrix hidden = exact(random_matrix(users, width, 1, 0.9F));
  const Matrix weight = exact(random_matrix(width, items, 2, 2.8F / std::sqrt(static_cast<float>(width))));
  Matrix bias(1, items);
  std::ranges::fill(bias.values, -9.0);
  reference::LayerGradient expected = reference::softmax_layer(hidden, once, weight, bias);

  Csr rows;
  for (std::int64_t row = 0; row < users * copies; ++row)
    rows.append(once.rows.view().sparse_row(row % users));
  TestBatch batch;
  gather(rows, items, true, batch);
  Matrix all_hidden(users * copies, width);
  Matrix d_input(users * copies, width);
  for (std::int64_t row = 0; row < users * copies; ++row) {
    const std::int64_t user = (batch.host.users[row] - 1000) % users;
    for (std::int64_t k = 0; k < width; ++k) {
      all_hidden.at(row, k) = hidden.at(user, k);
      d_input.at(row, k) = expected.d_input.at(user, k);
    }
  }
  for (Matrix* sum : {&expected.d_weight, &expected.d_bias}) {
    for (double& value : sum->values) value *= static_cast<double>(copies);
  }
  TestLayer layer = make_layer(device::TensorKind::output_table, weight, bias);
  const auto input = activations(all_hidden);
  auto d_hidden = device().make_matrix(users * copies, width);
  softmax_step(input, batch, layer, begin(), d_hidden);

  // In fp32, sums of a million terms of one sign; the emulator adds them one by one.
  const Tolerance of_items = gpu ? Tolerance{5e-4, 1e-3, 2e-6} : Tolerance{2e-3, 2e-3, 2e-6};
  const Tolerance of_users = {2e-5, 4e-5, 2e-6};
  const double nll = static_cast<double>(copies) * expected.nll;
  EXPECT_NEAR(losses().nll, nll, (low_precision() ? 1e-3 : 2e-6) * nll);
  expect_near(read(d_hidden), d_input, low_precision() ? tolerance() : of_items, "d_hidden");
  expect_near(weight_gradient(layer), expected.d_weight, low_precision() ? tolerance() : of_users,
              "d_weight");
  expect_near(bias_gradient(layer), expected.d_bias, low_precision() ? tolerance() : of_users, "d_bias");
}

// Rows that just fit into 40 and 46 KiB of shared memory, and rows that are longer.
TEST_P(CudaLayers, LogitsAroundTheSizeOfSharedMemory) {
  const std::int64_t size = low_precision() ? 2 : 4;
  for (const std::int64_t kibibytes : {40, 46}) {
    for (const std::int64_t more : {0, 1}) {
      const std::int64_t items = kibibytes * 1024 / size + more;
      SCOPED_TRACE(items);
      expect_output_step(1, random_output({11, items, 2}, 1));
    }
  }
}

// More rows than partials, and not a multiple of them.
TEST_P(CudaLayers, BiasGradientOfManyRows) {
  constexpr std::int64_t rows = 5003;
  TestLayer layer = random_layer(device::TensorKind::matrix, 3, 260);
  const Matrix x = random_matrix(rows, 3, 1);
  const Matrix y = random_matrix(rows, 260, 2, 0.3F);
  const Matrix d_y = random_matrix(rows, 260, 3);
  const auto input = activations(x);
  const auto output = activations(y);
  auto d_output = activations(d_y);
  device().linear_backward(input, layer.layer, device::Activation::tanh, output, d_output, nullptr, nullptr,
                           backward(layer));
  const auto expected = reference::linear_backward(x, layer.weight, device::Activation::tanh, y, d_y);
  if (d_output.copy() == nullptr)
    expect_near(read(d_output), expected.d_before, "d_output");
  else
    EXPECT_EQ(read(d_output), d_y.floats()) << "products read the copy alone, so the values are not written";
  expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
  // Sums of fp32 values in every precision.
  expect_near(bias_gradient(layer), expected.d_bias, Tolerance{5e-6, 2e-5, 2e-6}, "d_bias");
}

// As if a batch were divided into two parts.
TEST_P(CudaLayers, LossesOfOneStepAddUp) {
  TestLayer layer = random_layer(device::TensorKind::output_table, 7, 33);
  auto statistics = activations(random_matrix(9, 8, 5));
  auto d_z = activations(random_matrix(9, 4, 6));
  auto d_statistics = device().make_matrix(9, 8);
  const auto add = [&](std::int64_t users) {
    TestBatch batch;
    gather(random_rows(users, 33, 1), 33, true, batch);
    statistics.set_rows(users);
    d_z.set_rows(users);
    const auto hidden = activations(random_matrix(users, 7, 2));
    add_loss(hidden, batch, layer, step());
    device().latent_backward(*batch.device, statistics, d_z, d_statistics, step());
  };
  device::LossSums expected;
  for (const std::int64_t users : {5, 9}) {
    begin();
    add(users);
    const device::LossSums sums = losses();
    EXPECT_GT(sums.nll, 0.0);
    EXPECT_GT(sums.kl, 0.0);
    expected.nll += sums.nll;
    expected.kl += sums.kl;
  }
  begin();
  for (const std::int64_t users : {5, 9}) add(users);
  const device::LossSums sums = losses();
  EXPECT_EQ(sums.users, 14);
  EXPECT_DOUBLE_EQ(sums.nll, expected.nll);
  EXPECT_DOUBLE_EQ(sums.kl, expected.kl);
  // A step that does not end adds nothing.
  begin();
  add(9);
  begin();
  EXPECT_EQ(losses().users, 0);
}

/// In every precision: products of large gradients read 16-bit copies.
class CudaInputLayer : public Contract {
 protected:
  static constexpr std::int64_t items = 40;
  /// In larger batches, rows are summed by one thread group, and parts of items are larger.
  static constexpr std::int64_t users_of_wide_blocks = 8192;

  /// Each user has item 0. Item 1 has as many users as one part allows, and item 2 one more. Item 3 has none,
  /// the others some.
  static Csr popular_items(std::int64_t users) {
    const std::int64_t part = users > users_of_wide_blocks ? 1024 : 256;
    Csr rows;
    for (std::int64_t user = 0; user < users; ++user) {
      rows.columns.push_back(0);
      if (user < part) rows.columns.push_back(1);
      if (user % 2 == 0 && user < 2 * (part + 1)) rows.columns.push_back(2);
      rows.columns.push_back(static_cast<std::int32_t>(4 + user * 7 % (items - 4)));
      rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
    }
    return rows;
  }

  /// A gradient of `wide` columns exceeds the cache.
  void expect_sums_in_parts(std::int64_t users, std::int64_t wide, bool weighted);

  void sparse_linear_backward(TestLayer& layer, const TestBatch& batch, device::InputScaling scaling,
                              const device::Matrix& output, device::Matrix& d_output,
                              const device::GradientReady& ready = unreported) {
    device().sparse_linear_backward(*batch.device, layer.layer, device::Activation::identity, scaling, output,
                                    d_output, backward(layer, ready));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CudaInputLayer, ::testing::ValuesIn(devices(false)), contract_name);

TEST_P(CudaInputLayer, PopularItemsAreSummedInParts) {
  expect_sums_in_parts(2100, 2048, false);
  expect_sums_in_parts(9000, 480, true);
}

void CudaInputLayer::expect_sums_in_parts(std::int64_t users, std::int64_t wide, bool weighted) {
  TestBatch batch;
  const Csr rows = popular_items(users);
  gather(weighted ? weigh(rows) : rows, items, true, batch);
  const double half = fp16() ? 1e-3 : 8e-3;
  // Rows of the wider gradient exceed the cache, so their 16-bit copies are read.
  for (const std::int64_t width : {std::int64_t{24}, wide}) {
    const bool reads_copy = width > 24 && low_precision();
    const Tolerance sums = reads_copy ? Tolerance{half, half, 0.0} : Tolerance{5e-6, 1e-5, 0.0};
    TestLayer layer = random_layer(device::TensorKind::input_table, items, width);
    const Matrix y = random_matrix(users, width, 1);
    const Matrix d_y = random_matrix(users, width, 2);
    for (const float keep_prob : {1.0F, 0.5F}) {
      if (width == wide && keep_prob == 1.0F) continue;
      begin({5, 6});
      const auto output = activations(y);
      auto d_output = activations(d_y);
      sparse_linear_backward(layer, batch, keep_prob, output, d_output);
      const auto expected = reference::sparse_linear_backward(batch.host, keep_prob, {5, 6},
                                                              device::Activation::identity, y, d_y);
      const std::vector<float> found = weight_gradient(layer);
      expect_near(found, expected.d_weight, sums, "d_weight");
      expect_near(bias_gradient(layer), expected.d_bias, Tolerance{5e-6, 1e-5, 0.0}, "d_bias");
      double error = 0.0;
      for (std::size_t i = 0; i < found.size(); ++i)
        error += std::abs(found[i] - expected.d_weight.values[i]);
      EXPECT_EQ(error / static_cast<double>(found.size()) > 1e-5, reads_copy);
      device().side_features_backward({*batch.device, layer.layer.weight}, d_output, backward(layer));
      expect_near(weight_gradient(layer), reference::side_features_backward(batch.host, d_y), sums, "side");
    }
  }
}

// Thread groups sum the rows of a user in passes: tests one candidate less than a pass has, exactly that,
// one more, and several passes.
TEST_P(CudaInputLayer, UsersWithThousandsOfItems) {
  struct Case {
    std::vector<std::int64_t> sizes;  // numbers of items of the first users
    std::int64_t users;
    std::vector<std::int64_t> widths;
  };
  const Case cases[] = {// A pass of a large batch has 768 candidates.
                        {{767, 768, 769, 3000, 0, 1}, users_of_wide_blocks + 1, {20}},
                        // One of a small batch has 2,560. More than 32 rows are divided among thread groups:
                        // four, two at a width of 1,024, and a single one at 2,600.
                        {{0, 1, 31, 32, 33, 2560, 2561}, 7, {8, 600, 1024, 2600}}};
  for (const Case& c : cases) {
    const std::int64_t most = std::ranges::max(c.sizes);
    Csr rows;
    for (const std::int64_t n : c.sizes) {
      for (std::int64_t k = 0; k < n; ++k) rows.columns.push_back(static_cast<std::int32_t>(k * most / n));
      rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
    }
    rows.offsets.resize(static_cast<std::size_t>(c.users + 1), rows.offsets.back());
    TestBatch batch;
    gather(weigh(rows), most, true, batch);
    for (const std::int64_t width : c.widths) {
      const TestLayer layer = random_layer(device::TensorKind::input_table, most, width);
      auto output = device().make_matrix(c.users, width);
      for (const float keep : {1.0F, 0.5F, 0.01F}) {
        if (width > 20 && keep == 0.01F) continue;
        SCOPED_TRACE(::testing::Message() << "width " << width << " keep " << keep);
        const auto encode = [&](const SideFeatures* side) {
          device().sparse_linear(*batch.device, layer.parameters, layer.layer, device::Activation::tanh, keep,
                                 begin({5, 6}), side, output);
          return read(output);
        };
        const std::vector<float> found = encode(nullptr);
        expect_near(found,
                    reference::sparse_linear(batch.host, layer.weight, layer.bias, device::Activation::tanh,
                                             keep, {5, 6}),
                    "encoded");
        EXPECT_EQ(encode(nullptr), found);
        if (width > 20) continue;
        // The same rows as side features: both sums need several passes.
        const SideFeatures side{*batch.device, layer.layer.weight};
        expect_near(encode(&side),
                    reference::sparse_linear(batch.host, layer.weight, layer.bias, device::Activation::tanh,
                                             keep, {5, 6}, batch.host, layer.weight),
                    "encoded with a side input");
      }
    }
  }
}

TEST_P(CudaInputLayer, ReportsAFewRanges) {
  TestBatch batch;
  gather(popular_items(10), 50000, true, batch);
  TestLayer layer = random_layer(device::TensorKind::input_table, 50000, 8);
  begin();
  const auto output = activations(Matrix(10, 8));
  auto d_output = activations(random_matrix(10, 8, 2));
  Reports reports(*this, layer);
  sparse_linear_backward(layer, batch, 1.0F, output, d_output, reports.callback());
  EXPECT_EQ(reports.count(), 9U);
  reports.check();
}

// With one item, softmax is 1 and so is x. 65536 times either exceeds fp16, but their difference is 0.
TEST_P(CudaLayers, GradientsOfOwnItemsAreRoundedOnce) {
  TestLayer layer = make_layer(device::TensorKind::output_table, Matrix(1, 1), Matrix(1, 1));
  TestBatch batch;
  gather(Csr{{0, 1, 1}, {0}}, 1, true, batch);
  const auto hidden = activations(random_matrix(2, 1, 1));
  auto d_hidden = device().make_matrix(2, 1);
  begin();
  device().set_loss_scale({65536.0F, 0}, step());
  softmax_step(hidden, batch, layer, step(), d_hidden);
  device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, step());
  EXPECT_EQ(losses().skipped, 0);
  const std::vector<float> gradients = flat(layer.gradients);
  EXPECT_EQ(gradients, std::vector<float>(gradients.size(), 0.0F));
}

}  // namespace
}  // namespace vaecf::testing
