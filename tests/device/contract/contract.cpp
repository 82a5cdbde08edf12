#include "device/contract/contract.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/math/random.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/require_gpu.hpp"

namespace vaecf::testing {

using device::ParameterLayout;
using device::TensorKind;

std::vector<float> random_values(std::int64_t n, std::uint64_t seed, float scale) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; i += 4) {
    float noise[4];
    math::latent_noise_block(seed, 0, 0, static_cast<std::uint32_t>(i / 4), noise);
    for (std::int64_t j = i; j < std::min(i + 4, n); ++j)
      values[static_cast<std::size_t>(j)] = scale * noise[j - i];
  }
  return values;
}

Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed, float scale) {
  return {rows, columns, random_values(rows * columns, seed, scale)};
}

namespace {

std::uint32_t draw(std::uint64_t seed, std::int64_t user, std::int64_t index) {
  return math::random_word(seed, math::RandomStream::permutation, 0, static_cast<std::uint32_t>(user),
                           static_cast<std::uint32_t>(index));
}

std::int64_t nonzeros(std::span<const float> values) {
  return std::count_if(values.begin(), values.end(), [](float x) { return x != 0.0F; });
}

}  // namespace

Matrix whole_numbers(std::int64_t rows, std::int64_t columns, std::uint64_t seed, int range) {
  Matrix m(rows, columns);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    m.values[static_cast<std::size_t>(i)] =
        static_cast<int>(draw(seed, 0, i) % static_cast<std::uint32_t>(2 * range + 1)) - range;
  }
  return m;
}

Csr random_rows(std::int64_t users, std::int64_t items, std::uint64_t seed, std::int64_t max_items) {
  Csr rows;
  for (std::int64_t user = 0; user < users; ++user) {
    std::vector<std::int32_t> held;
    if (user == 3) {
      held.resize(static_cast<std::size_t>(items));
      std::iota(held.begin(), held.end(), 0);
    } else if (user % 5 != 1) {
      const std::int64_t count = 1 + draw(seed, user, 0) % std::min(max_items, items);
      for (std::int64_t k = 1; k <= count; ++k) {
        held.push_back(static_cast<std::int32_t>(draw(seed, user, k) % items));
      }
      std::sort(held.begin(), held.end());
      held.erase(std::unique(held.begin(), held.end()), held.end());
    }
    rows.columns.insert(rows.columns.end(), held.begin(), held.end());
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  return rows;
}

Csr weigh(Csr rows, std::uint64_t seed) {
  rows.values = random_values(std::ssize(rows.columns), seed, 0.7F);
  for (float& value : rows.values) value = std::exp(value);
  return rows;
}

Matrix possible_outputs(device::Activation act, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Matrix y = random_matrix(rows, columns, seed);
  if (act == device::Activation::tanh) {
    for (double& x : y.values) x = static_cast<float>(std::tanh(x));
  } else if (act == device::Activation::sigmoid) {
    for (double& x : y.values) x = static_cast<float>(1.0 / (1.0 + std::exp(-x)));
  }
  return y;
}

TestDevice::TestDevice(const ContractDevice& param) : read_(param.read) {
  if (!param.skip.empty()) return;
  device_ = param.make();
  step_ = device_->make_step_state();
}

void Contract::SetUp() {
  require_gpu(GetParam().skip);
}

device::StepState& TestDevice::begin(StepKey key, float beta, const device::UpdateRule& rule,
                                     std::int64_t batch) {
  device_->set_losses({}, *step_);
  device_->set_loss_scale({1.0F, 0}, *step_);
  device_->begin_step({key.seed, key.step, batch, beta, rule}, *step_);
  return *step_;
}

device::LossSums TestDevice::losses() {
  device_->end_step(*step_);
  return device_->sums(*step_).losses;
}

Tolerance TestDevice::tolerance() const {
  if (bf16x3()) return {1e-5, 4e-5, 2e-6};
  return low_precision() ? Tolerance{1.5e-2, 4e-2, 1e-5} : Tolerance{5e-6, 2e-5, 2e-6};
}

std::vector<float> TestDevice::read(const device::Matrix& from) const {
  std::vector<float> values(static_cast<std::size_t>(from.rows() * from.columns()));
  device_->read_matrix(from, values);
  return values;
}

device::Matrix TestDevice::activations(const Matrix& values) {
  auto made = device_->make_matrix(values.rows, values.columns);
  write(made, values);
  return made;
}

void TestDevice::write(device::Matrix& to, const Matrix& values) {
  device_->write_matrix(to, values.rows, values.floats());
}

void TestDevice::import_tensor(const ParameterLayout& layout, int tensor, const Matrix& values,
                               device::Buffer& to) {
  device_->import_rows(layout, tensor, {0, values.rows}, values.floats(), to);
}

std::vector<float> TestDevice::export_tensor(const ParameterLayout& layout, int tensor,
                                             const device::Buffer& from) {
  const device::TensorSpec& spec = layout.tensors[static_cast<std::size_t>(tensor)].spec;
  std::vector<float> values(static_cast<std::size_t>(spec.rows * spec.columns));
  device_->export_rows(layout, tensor, {0, spec.rows}, from, values);
  return values;
}

void TestDevice::expect_zero_padding(const ParameterLayout& layout, const device::Buffer& buffer) {
  std::int64_t logical = 0;
  for (std::size_t tensor = 0; tensor < layout.tensors.size(); ++tensor) {
    logical += nonzeros(export_tensor(layout, static_cast<int>(tensor), buffer));
  }
  EXPECT_EQ(nonzeros(flat(buffer)), logical) << "padding is not zero";
}

void TestDevice::expect_near(std::span<const float> got, const Matrix& expected, Tolerance allowed,
                             const std::string& what) {
  ASSERT_EQ(got.size(), expected.values.size()) << what;
  double error = 0.0;
  double norm = 0.0;
  double largest = 0.0;
  double worst = 0.0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " element " << i;
    const double difference = std::abs(got[i] - expected.values[i]);
    error += difference * difference;
    norm += expected.values[i] * expected.values[i];
    largest = std::max(largest, std::abs(expected.values[i]));
    if (difference > worst) {
      worst = difference;
      where = i;
    }
  }
  const double floor = allowed.floor * std::sqrt(static_cast<double>(got.size()));
  EXPECT_LE(std::sqrt(error), allowed.norm * std::sqrt(norm) + floor) << what << ": norm of the error";
  EXPECT_LE(worst, allowed.worst * largest + allowed.floor)
      << what << ": element " << where << " is " << got[where] << " instead of " << expected.values[where];
}

TestLayer TestDevice::make_layer(TensorKind kind, const Matrix& weight, const Matrix& bias,
                                 const Matrix& features) {
  const TensorKind bias_kind = kind == TensorKind::output_table ? TensorKind::output_bias : TensorKind::bias;
  std::vector<device::TensorSpec> specs = {{"layer/weight", weight.rows, weight.columns, kind, true}};
  if (bias.columns > 0) specs.push_back({"layer/bias", 1, bias.columns, bias_kind, false});
  if (features.columns > 0)
    specs.push_back({"layer/features", features.rows, features.columns, TensorKind::input_table, true});
  TestLayer made;
  made.layout = device().plan_parameters(specs);
  made.layer = {0, bias.columns > 0 ? 1 : 0};
  made.parameters = device().make_parameters(made.layout, 0);
  made.gradients = device().make_buffer(made.layout.size);
  made.weight = weight;
  made.bias = bias;
  const Matrix* values[] = {&weight, &bias, &features};
  for (int tensor = 0; tensor < static_cast<int>(specs.size()); ++tensor) {
    const Matrix& of_tensor = *values[tensor];
    import_tensor(made.layout, tensor, of_tensor, made.parameters.master());
    const auto seed = static_cast<std::uint64_t>(90 + tensor);
    import_tensor(made.layout, tensor, random_matrix(of_tensor.rows, of_tensor.columns, seed),
                  made.gradients);
  }
  device().refresh_copies(made.parameters, {0, made.layout.size});
  return made;
}

TestLayer TestDevice::random_layer(TensorKind kind, std::int64_t inputs, std::int64_t outputs) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(inputs));
  return make_layer(kind, random_matrix(inputs, outputs, 92, kind == TensorKind::input_table ? 1.0F : scale),
                    random_matrix(1, outputs, 93, 0.5F));
}

std::vector<float> TestDevice::weight_gradient(const TestLayer& layer) {
  return export_tensor(layer.layout, layer.layer.weight, layer.gradients);
}

std::vector<float> TestDevice::bias_gradient(const TestLayer& layer) {
  return export_tensor(layer.layout, layer.layer.bias, layer.gradients);
}

TestMoments TestDevice::make_moments(const TestLayer& layer) {
  return {device().make_buffer(layer.layout.size), device().make_buffer(layer.layout.size)};
}

void TestDevice::update(TestLayer& layer, TestMoments& moments) {
  std::vector<device::UpdateRange> ranges;
  for (const device::TensorLayout& tensor : layer.layout.tensors) {
    ranges.push_back({tensor.range, tensor.spec.decays});
  }
  device().update(ranges, layer.gradients, {moments.first, moments.second}, layer.parameters, step());
}

void TestDevice::update(device::UpdateRange range, TestLayer& layer, TestMoments& moments) {
  device().update({&range, 1}, layer.gradients, {moments.first, moments.second}, layer.parameters, step());
}

void TestDevice::expect_same(const TestLayer& layer, const TestMoments& moments, const TestLayer& other,
                             const TestMoments& of_other) {
  EXPECT_EQ(flat(layer.parameters.master()), flat(other.parameters.master()));
  EXPECT_EQ(flat(moments.first), flat(of_other.first));
  EXPECT_EQ(flat(moments.second), flat(of_other.second));
}

void TestDevice::add_loss(const device::Matrix& hidden, const TestBatch& batch, TestLayer& layer,
                          device::StepState& state) {
  auto d_hidden = device().make_matrix(std::max<std::int64_t>(hidden.rows(), 1), hidden.columns());
  softmax_step(hidden, batch, layer, state, d_hidden);
}

void TestDevice::gather(CsrView rows, std::int64_t items, bool with_transpose, TestBatch& batch) {
  constexpr std::int64_t first_user = 1000;
  const std::int64_t n = rows.rows();
  const auto held = device().make_user_rows(rows, first_user, items, device::single_rank());
  ASSERT_EQ(held->rows(), n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[draw(94, 0, static_cast<std::int64_t>(i)) % i]);
  }
  batch.host = {};
  batch.host.items = items;
  for (const std::int64_t row : order) {
    batch.host.rows.append(rows.sparse_row(row));
    batch.host.users.push_back(static_cast<std::uint32_t>(first_user + row));
  }
  if (!batch.device) batch.device = device().make_batch();
  device().gather_batch(*held, order, with_transpose, *batch.device);
  device().synchronize();
  ASSERT_EQ(batch.device->users(), n);
}

device::GradientReady TestDevice::Reports::callback(std::function<void()> at_report) {
  return [this, at_report](Range range, device::EventHandle) {
    test_->device().synchronize();
    const std::vector<float> all = test_->flat(layer_->gradients);
    ranges_.push_back(range);
    at_report_.emplace_back(all.begin() + range.begin, all.begin() + range.end);
    if (at_report) at_report();
  };
}

void TestDevice::Reports::check() const {
  const std::vector<float> all = test_->flat(layer_->gradients);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    EXPECT_GT(ranges_[i].size(), 0);
    EXPECT_TRUE(std::equal(at_report_[i].begin(), at_report_[i].end(), all.begin() + ranges_[i].begin))
        << "report " << i << " came before its gradient was complete";
  }
  // The bias of an input table is reported before the weight.
  std::vector<Range> sorted = ranges_;
  std::ranges::sort(sorted, {}, &Range::begin);
  std::int64_t next = 0;
  for (const Range& range : sorted) {
    EXPECT_EQ(range.begin, next) << "the elements of the layer are not reported exactly once";
    next = range.end;
  }
  EXPECT_EQ(next, layer_->layout.size) << "not all of the layer was reported";
}

std::string contract_name(const ::testing::TestParamInfo<ContractDevice>& info) {
  return info.param.name;
}

}  // namespace vaecf::testing
