// The sparse layer's own kernels against cuSPARSE, at a real size and on a GPU: products with the matrix S of
// scaled inputs, S_ui = 1 / sqrt(n_u), which the kernels never store. Not against it: dropout, tanh and
// narrow numbers, which cuSPARSE does not know; the contract holds those to fp64.
#include <gtest/gtest.h>
#include <vaecf/backend/cuda/device.hpp>

#include <cusparse.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda_support.hpp"

namespace {

using namespace vaecf;
using cuda_test::check;
using cuda_test::DeviceVector;

constexpr std::int64_t items = 20108;
constexpr std::int64_t width = 600;
constexpr std::int64_t users = 4096;

void check(cusparseStatus_t status) {
  if (status != CUSPARSE_STATUS_SUCCESS) throw std::runtime_error(cusparseGetErrorString(status));
}

/// Popularity falls as 1 / rank, as in real data: the first items have thousands of these users, most a few.
Csr popular_items() {
  std::vector<double> weights;
  for (std::int64_t item = 0; item < items; ++item) weights.push_back(1.0 / static_cast<double>(item + 5));
  std::mt19937 random(7);
  std::discrete_distribution<std::int32_t> draw(weights.begin(), weights.end());
  Csr rows;
  for (std::int64_t user = 0; user < users; ++user) {
    std::vector<std::int32_t> held;
    const int wanted = user == 17 ? 9000 : 5 + static_cast<int>(random() % 140U);
    for (int k = 0; user % 100 != 3 && k < wanted; ++k) held.push_back(draw(random));
    std::sort(held.begin(), held.end());
    held.erase(std::unique(held.begin(), held.end()), held.end());
    rows.columns.insert(rows.columns.end(), held.begin(), held.end());
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  return rows;
}

std::vector<float> random_values(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& x : values) x = normal(random);
  return values;
}

/// op(S) (m, k) times `dense` (k, width), by cuSPARSE.
std::vector<float> product(const Csr& rows, bool transposed, const std::vector<float>& dense) {
  std::vector<std::int32_t> offsets(rows.offsets.begin(), rows.offsets.end());
  std::vector<float> scales;
  for (std::int64_t user = 0; user < rows.rows(); ++user) {
    const auto n = static_cast<std::size_t>(rows.view().row_size(user));
    scales.insert(scales.end(), n, 1.0F / std::sqrt(static_cast<float>(n)));
  }
  const std::int64_t m = transposed ? items : rows.rows();
  const std::int64_t k = transposed ? rows.rows() : items;
  DeviceVector<std::int32_t> device_offsets(offsets);
  DeviceVector<std::int32_t> device_columns(rows.columns);
  DeviceVector<float> device_scales(scales);
  DeviceVector<float> device_dense(dense);
  DeviceVector<float> result(static_cast<std::size_t>(m * width));

  cusparseHandle_t handle = nullptr;
  cusparseSpMatDescr_t sparse = nullptr;
  cusparseDnMatDescr_t in = nullptr;
  cusparseDnMatDescr_t out = nullptr;
  check(cusparseCreate(&handle));
  check(cusparseCreateCsr(&sparse, rows.rows(), items, static_cast<std::int64_t>(rows.columns.size()),
                          device_offsets.data(), device_columns.data(), device_scales.data(),
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  check(cusparseCreateDnMat(&in, k, width, width, device_dense.data(), CUDA_R_32F, CUSPARSE_ORDER_ROW));
  check(cusparseCreateDnMat(&out, m, width, width, result.data(), CUDA_R_32F, CUSPARSE_ORDER_ROW));
  const auto operation = transposed ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE;
  // Row-major and this algorithm: several times as fast as the default with column-major.
  const auto algorithm = transposed ? CUSPARSE_SPMM_ALG_DEFAULT : CUSPARSE_SPMM_CSR_ALG2;
  const float one = 1.0F;
  const float zero = 0.0F;
  std::size_t bytes = 0;
  check(cusparseSpMM_bufferSize(handle, operation, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, sparse, in, &zero,
                                out, CUDA_R_32F, algorithm, &bytes));
  DeviceVector<char> scratch(bytes);
  check(cusparseSpMM(handle, operation, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, sparse, in, &zero, out,
                     CUDA_R_32F, algorithm, scratch.data()));
  std::vector<float> values = result.host();
  check(cusparseDestroyDnMat(out));
  check(cusparseDestroyDnMat(in));
  check(cusparseDestroySpMat(sparse));
  check(cusparseDestroy(handle));
  return values;
}

/// Two orders of fp32 addition.
void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  double error = 0.0;
  double norm = 0.0;
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << "element " << i;
    const double difference = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    error += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    worst = std::max(worst, std::abs(difference));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  EXPECT_GT(norm, 0.0);
  EXPECT_LE(std::sqrt(error / norm), 1e-6);
  EXPECT_LE(worst, 1e-5 * largest);
}

class CudaSparseOracle : public cuda_test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    backend_ =
        cuda::make_device({.device = backend::DeviceChoice::cuda, .precision = backend::Precision::fp32});
    const std::vector<backend::TensorSpec> tensors = {
        {"weight", items, width, backend::TensorKind::input_table, true},
        {"bias", 1, width, backend::TensorKind::bias, false}};
    layout_ = backend_->plan_parameters(tensors);
    rows_ = popular_items();
    held_ = backend_->hold_rows(rows_.view(), 0, items);
    batch_ = backend_->make_batch();
    step_ = backend_->make_step_state();
    std::vector<std::int64_t> all(static_cast<std::size_t>(users));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    backend_->gather_batch(*held_, all, true, *batch_);
  }

  std::unique_ptr<cuda::Device> backend_;
  backend::ParameterLayout layout_;
  Csr rows_;
  std::unique_ptr<cuda::UserRows> held_;
  std::unique_ptr<cuda::Batch> batch_;
  std::unique_ptr<cuda::StepState> step_;
};

TEST_F(CudaSparseOracle, EncodeInputIsTheProduct) {
  const std::vector<float> weight = random_values(items * width, 1);
  const auto parameters = backend_->make_parameters(layout_, 0);
  backend_->import_rows(layout_, 0, {0, items}, weight, parameters->master());
  backend_->weights_changed(*parameters);
  const auto output = backend_->make_activations(users, width);
  backend_->encode_input(*batch_, *parameters, {0, 1}, backend::Activation::identity, 1.0F, *step_, *output);
  std::vector<float> found(static_cast<std::size_t>(users * width));
  backend_->read_activations(*output, found);
  expect_near(found, product(rows_, false, weight));
}

TEST_F(CudaSparseOracle, InputGradientIsTheTransposedProduct) {
  const std::vector<float> gradient = random_values(users * width, 2);
  const auto output = backend_->make_activations(users, width);
  const auto d_output = backend_->make_activations(users, width);
  backend_->write_activations(*output, users, gradient);
  backend_->write_activations(*d_output, users, gradient);
  const auto gradients = backend_->make_buffer(layout_.size);
  std::vector<std::vector<float>> found(2, std::vector<float>(static_cast<std::size_t>(items * width)));
  for (std::vector<float>& values : found) {
    backend_->input_gradient(*batch_, layout_, {0, 1}, backend::Activation::identity, 1.0F, *step_, *output,
                             *d_output, *gradients, {});
    backend_->export_rows(layout_, 0, {0, items}, *gradients, values);
  }
  EXPECT_TRUE(found[0] == found[1]) << "not the same bits twice, which cuSPARSE's transposed product is not";
  expect_near(found[0], product(rows_, true, gradient));
}

}  // namespace
