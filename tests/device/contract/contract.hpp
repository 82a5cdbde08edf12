#pragma once

#include "support/reference_verbs.hpp"

#include <gtest/gtest.h>
#ifdef VAECF_CONTRACT_CUDA
#include <vaecf/device/cuda/device.hpp>
#else
#include <vaecf/device/cpu/device.hpp>
#endif

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

/// One contract for all devices: every operation against plain fp64. The test files are compiled once for
/// each class of devices; each executable has its own `contract_devices()`.
namespace vaecf::testing {

#ifdef VAECF_CONTRACT_CUDA
using Device = cuda::Device;
#else
using Device = cpu::Device;
#endif
using FusedUpdate = device::FusedUpdate<Device::Parameters, Device::Buffer>;
using SideInput = device::SideInput<Device::Batch>;

/// Users of a batch: many, none, and around a warp.
inline constexpr std::int64_t user_counts[] = {257, 0, 1, 31, 32, 33};

/// Inputs (or items) and outputs of a layer.
struct LayerSize {
  std::int64_t inputs;
  std::int64_t outputs;
};
inline constexpr LayerSize matrix_sizes[] = {{1, 1}, {7, 33}, {200, 31}, {65, 257}};

using device::OptimizerKind;
inline const device::UpdateRule update_rules[] = {
    {OptimizerKind::adam, 3e-3F, 0.9F, 0.999F, 1e-8F, 1.0F / 500, 0.0F},
    {OptimizerKind::adam, 1e-2F, 0.8F, 0.9F, 1e-3F, 1.0F / 77, 0.02F},
    {OptimizerKind::rmsprop, 1e-3F, 0.9F, 0.99F, 1e-6F, 1.0F / 500, 0.0F},
    {OptimizerKind::rmsprop, 1e-2F, 0.0F, 0.9F, 1e-3F, 1.0F, 0.1F},
    {OptimizerKind::sgd, 0.1F, 0.9F, 0.0F, 0.0F, 1.0F / 500, 0.0F},
    {OptimizerKind::sgd, 0.5F, 0.0F, 0.0F, 0.0F, 1.0F / 500, 0.3F}};

/// A way to make a device, and to look at all of a flat buffer, padding included.
struct ContractDevice {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;
  std::function<std::vector<float>(const Device::Buffer&)> read;
  bool fast = true;  ///< library products: the real size is affordable
  /// Why there is none here and now: its tests are skipped, or fail where VAECF_REQUIRE_GPU=1.
  std::string skip = {};
};

/// GoogleTest would print the bytes.
inline void PrintTo(const ContractDevice& device, std::ostream* out) {
  *out << device.name;
}

/// The devices (with their precisions and kernels) of this executable.
std::vector<ContractDevice> contract_devices();
#ifdef VAECF_CONTRACT_CUDA
/// Devices with so little memory that they cut batches into slices; none that are real GPUs.
std::vector<ContractDevice> small_cuda_devices();
#endif

/// How far a result may be from fp64: ||a - b|| <= norm ||b|| + floor sqrt(elements), and for each element
/// |a - b| <= worst max|b| + floor.
struct Tolerance {
  double norm = 0.0;
  double worst = 0.0;
  double floor = 0.0;
};

/// `n` draws of N(0, scale^2), the same on every machine.
std::vector<float> random_values(std::int64_t n, std::uint64_t seed, float scale = 1.0F);
Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed, float scale = 1.0F);
/// Whole numbers from -range to range: their products and sums are exact in bf16 and fp32.
Matrix whole_numbers(std::int64_t rows, std::int64_t columns, std::uint64_t seed, int range);
/// Item lists of `users` users: every fifth is empty, one holds everything, the others up to `most` items.
Csr random_rows(std::int64_t users, std::int64_t items, std::uint64_t seed, std::int64_t most = 40);

class Contract : public ::testing::TestWithParam<ContractDevice> {
 protected:
  Contract();
  void SetUp() override;

  Device& device() { return *device_; }
  bool low_precision() const { return device_->precision() != device::Precision::fp32; }
  bool fp16() const { return device_->precision() == device::Precision::fp16; }
  /// Starts a step with these numbers (and, in fp16, a loss scale of 1); what the sums held is forgotten.
  Device::StepState& begin(StepKey key, float beta = 0.0F, const device::UpdateRule& rule = {},
                           std::int64_t batch = 0);
  Device::StepState& begin() { return begin(StepKey{}); }
  Device::StepState& step() { return *step_; }
  /// Ends the step and returns the sums since its beginning: its own losses, where it ran alone.
  device::LossSums losses();

  /// Of products and what is kept in the device's storage format.
  Tolerance tolerance() const;

  std::vector<float> flat(const Device::Buffer& buffer) const {
    device_->synchronize();
    return GetParam().read(buffer);
  }
  std::vector<float> read(const Device::Activations& activations) const;
  std::unique_ptr<Device::Activations> activations(const Matrix& values);
  void write(Device::Activations& to, const Matrix& values);

  void import_tensor(const device::ParameterLayout& layout, int tensor, const Matrix& values,
                     Device::Buffer& to);
  std::vector<float> export_tensor(const device::ParameterLayout& layout, int tensor,
                                   const Device::Buffer& from);
  /// Whether everything in `buffer` that belongs to no tensor is zero: it has as many other numbers as all
  /// its exported tensors together, however the device lays them out.
  void expect_zero_padding(const device::ParameterLayout& layout, const Device::Buffer& buffer);

  void expect_near(std::span<const float> got, const Matrix& expected, Tolerance tolerance,
                   const std::string& what);
  void expect_near(std::span<const float> got, const Matrix& expected, const std::string& what) {
    expect_near(got, expected, tolerance(), what);
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Device::StepState> step_;
};

/// A dense, input or output layer on its own: parameters with random weights, gradients full of rubbish that
/// the verbs have to overwrite, and the host's copies.
struct TestLayer {
  device::ParameterLayout layout;
  std::unique_ptr<Device::Parameters> parameters;
  std::unique_ptr<Device::Buffer> gradients;
  device::Layer layer{0, 1};
  Matrix weight;
  Matrix bias;
};

/// Both moments of a layer's elements, zero at first.
struct TestMoments {
  std::unique_ptr<Device::Buffer> first;
  std::unique_ptr<Device::Buffer> second;
};

/// A batch on both sides. Users come from a set whose first user is number 1000, in shuffled order.
struct TestBatch {
  HostBatch host;
  std::unique_ptr<Device::Batch> device;
};

class LayerContract : public Contract {
 protected:
  TestLayer make_layer(device::TensorKind kind, const Matrix& weight, const Matrix& bias);
  /// Weights N(0, 1 / inputs), biases N(0, 0.25).
  TestLayer random_layer(device::TensorKind kind, std::int64_t inputs, std::int64_t outputs);
  std::vector<float> weight_gradient(const TestLayer& layer);
  std::vector<float> bias_gradient(const TestLayer& layer);

  TestMoments make_moments(const TestLayer& layer);
  /// Updates both tensors by the step's rule; weights decay, biases do not.
  void update(const TestLayer& layer, const TestMoments& moments);
  /// The same bits in weights and moments.
  void expect_same(const TestLayer& layer, const TestMoments& moments, const TestLayer& other,
                   const TestMoments& of_other);

  /// Cuts all of `rows`, shuffled, into `batch.device` (made where it is null).
  void gather(CsrView rows, std::int64_t items, bool with_transpose, TestBatch& batch);
  void gather(const Csr& rows, std::int64_t items, bool with_transpose, TestBatch& batch) {
    gather(rows.view(), items, with_transpose, batch);
  }

  /// The verb of this name, into the gradients of `layer`.
  void softmax_step(const Device::Activations& hidden, const TestBatch& batch, const TestLayer& layer,
                    Device::StepState& state, Device::Activations& d_hidden,
                    const device::GradientReady& ready = {}, const FusedUpdate* update = nullptr) {
    device().softmax_layer_step(hidden, *batch.device, *layer.parameters, layer.layer, state, d_hidden,
                                *layer.gradients, ready, update);
  }

  struct SoftmaxStep {
    std::size_t reports;
    double loss_error;  ///< relative
  };
  /// Compares all results of the verb with fp64. Its activations may hold those of a batch before.
  SoftmaxStep expect_softmax_step(const TestLayer& layer, const Matrix& hidden, const TestBatch& batch,
                                  Device::Activations& input, Device::Activations& d_hidden,
                                  Tolerance of_d_hidden);
  SoftmaxStep expect_softmax_step(const TestLayer& layer, const Matrix& hidden, const TestBatch& batch);

  /// Adds the loss of `batch` to `state`; its gradients are not looked at.
  void add_loss(const Device::Activations& hidden, const TestBatch& batch, const TestLayer& layer,
                Device::StepState& state);

  /// Collects what a verb reports; `check` tests that each of the layer's elements came exactly once, in
  /// layout order, and was final when it came.
  class Reports {
   public:
    Reports(LayerContract& test, const TestLayer& layer) : test_(&test), layer_(&layer) {}
    /// `at_report` is called within every report.
    device::GradientReady callback(std::function<void()> at_report = {});
    void check() const;
    std::size_t count() const { return ranges_.size(); }

   private:
    LayerContract* test_;
    const TestLayer* layer_;
    std::vector<Range> ranges_;
    std::vector<std::vector<float>> at_report_;
  };
};

std::string contract_name(const ::testing::TestParamInfo<ContractDevice>& info);

}  // namespace vaecf::testing
