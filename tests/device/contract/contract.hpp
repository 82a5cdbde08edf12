#pragma once

#include <vaecf/device/device.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "support/reference_ops.hpp"
#include "support/thread_communicator.hpp"

/// The contract of all devices: compares every operation with plain fp64. Each program defines its own
/// `contract_devices()` and `small_devices()`.
namespace vaecf::testing {

using device::FusedUpdate;
using device::SideFeatures;

/// The callback of operations whose reports do not matter.
inline const device::GradientReady unreported;

/// Numbers of users per batch: many, none, and around the size of a warp.
inline constexpr std::int64_t user_counts[] = {257, 0, 1, 31, 32, 33};

/// Numbers of inputs (or items) and outputs of a layer.
struct LayerSize {
  std::int64_t inputs;
  std::int64_t outputs;
};

using device::OptimizerKind;
inline const device::UpdateRule update_rules[] = {
    {OptimizerKind::adam, 3e-3F, 0.9F, 0.999F, 1e-8F, 1.0F / 500, 0.0F},
    {OptimizerKind::adam, 1e-2F, 0.8F, 0.9F, 1e-3F, 1.0F / 77, 0.02F},
    {OptimizerKind::rmsprop, 1e-3F, 0.9F, 0.99F, 1e-6F, 1.0F / 500, 0.0F},
    {OptimizerKind::rmsprop, 1e-2F, 0.0F, 0.9F, 1e-3F, 1.0F, 0.1F},
    {OptimizerKind::sgd, 0.1F, 0.9F, 0.0F, 0.0F, 1.0F / 500, 0.0F},
    {OptimizerKind::sgd, 0.5F, 0.0F, 0.0F, 0.0F, 1.0F / 500, 0.3F}};

/// Factory of a device, with access to a complete flat buffer, including padding.
struct ContractDevice {
  std::string name;
  std::function<std::unique_ptr<device::Device>()> make;
  std::function<std::vector<float>(const device::Buffer&)> read;
  bool fast = true;  ///< uses library products, so the real size is affordable
  /// Reason why the device is not available: its tests are skipped, or fail if VAECF_REQUIRE_GPU=1.
  std::string skip = {};
  bool several_item_slices = true;  ///< which exchange in memory that the host can access
  comm::ThreadDevice exchange = {};
};

/// Otherwise GoogleTest would print the bytes.
inline void PrintTo(const ContractDevice& device, std::ostream* out) {
  *out << device.name;
}

/// Reads device memory that is host memory, as that of CPUs and of emulated GPUs.
inline std::vector<float> read_host(const device::Buffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

/// Returns the devices of this executable, with their precisions and kernels.
std::vector<ContractDevice> contract_devices();
/// Returns emulated GPUs of `mebibytes`, an eighth of which item slices of users may have; none in programs
/// without them.
std::vector<ContractDevice> small_devices(int mebibytes);

/// Allowed deviation from fp64: ||a - b|| <= norm ||b|| + floor sqrt(elements), and for each element |a - b|
/// <= worst max|b| + floor.
struct Tolerance {
  double norm = 0.0;
  double worst = 0.0;
  double floor = 0.0;
};

/// Returns `n` samples of N(0, scale^2), the same on every machine.
std::vector<float> random_values(std::int64_t n, std::uint64_t seed, float scale = 1.0F);
Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed, float scale = 1.0F);
/// Returns random integers from -range to range, whose products and sums are exact in bf16 and fp32.
Matrix whole_numbers(std::int64_t rows, std::int64_t columns, std::uint64_t seed, int range);
/// Returns random items of `users` users: every fifth has none, one has all, the others up to `max_items`
/// items.
Csr random_rows(std::int64_t users, std::int64_t items, std::uint64_t seed, std::int64_t max_items = 40);
/// Returns `rows` with positive random values of median 1.
Csr weigh(Csr rows, std::uint64_t seed = 89);
/// Returns possible outputs of a layer with `act`.
Matrix possible_outputs(device::Activation act, std::int64_t rows, std::int64_t columns, std::uint64_t seed);

/// A dense, input or output layer, perhaps with a table of features (tensor 2): parameters with random
/// weights, gradients with arbitrary contents that operations must overwrite, and copies on the host.
struct TestLayer {
  device::ParameterLayout layout;
  device::Parameters parameters;
  device::Buffer gradients;
  device::Layer layer{0, 1};
  Matrix weight;
  Matrix bias;
};

/// Both moments of a layer's elements, initially zero.
struct TestMoments {
  device::Buffer first;
  device::Buffer second;
};

/// A batch on device and host. The first row of its set is user 1000; rows are shuffled.
struct TestBatch {
  HostBatch host;
  std::unique_ptr<device::Batch> device;
};

/// A device, the state of its current step, and helpers that write to it, read from it and compare with fp64.
class TestDevice {
 public:
  explicit TestDevice(const ContractDevice& param);

  device::Device& device() { return *device_; }
  device::Precision precision() const { return device_->facts().precision; }
  bool bf16x3() const { return precision() == device::Precision::bf16x3; }
  bool low_precision() const { return precision() != device::Precision::fp32 && !bf16x3(); }
  bool fp16() const { return precision() == device::Precision::fp16; }
  /// Starts a step with these parameters (and, in fp16, a loss scale of 1); clears the sums of losses.
  device::StepState& begin(StepKey key = {}, float beta = 0.0F, const device::UpdateRule& rule = {},
                           std::int64_t batch = 0);
  device::StepState& step() { return *step_; }
  /// Ends the step and returns the sums of losses since begin().
  device::LossSums losses();

  /// Returns the tolerance for products and for values in the device's storage format.
  Tolerance tolerance() const;

  std::vector<float> flat(const device::Buffer& buffer) const {
    device_->synchronize();
    return read_(buffer);
  }
  std::vector<float> read(const device::Matrix& activations) const;
  device::Matrix activations(const Matrix& values);
  void write(device::Matrix& to, const Matrix& values);

  void import_tensor(const device::ParameterLayout& layout, int tensor, const Matrix& values,
                     device::Buffer& to);
  std::vector<float> export_tensor(const device::ParameterLayout& layout, int tensor,
                                   const device::Buffer& from);
  /// Expects everything in `buffer` that belongs to no tensor to be zero: the buffer must have as many
  /// nonzero elements as its exported tensors together.
  void expect_zero_padding(const device::ParameterLayout& layout, const device::Buffer& buffer);

  static void expect_near(std::span<const float> got, const Matrix& expected, Tolerance tolerance,
                          const std::string& what);
  void expect_near(std::span<const float> got, const Matrix& expected, const std::string& what) {
    expect_near(got, expected, tolerance(), what);
  }

  /// Makes a layer without bias or without features if they have no columns.
  TestLayer make_layer(device::TensorKind kind, const Matrix& weight, const Matrix& bias,
                       const Matrix& features = {});
  /// Makes a layer with weights N(0, 1 / inputs) and biases N(0, 0.25).
  TestLayer random_layer(device::TensorKind kind, std::int64_t inputs, std::int64_t outputs);
  std::vector<float> weight_gradient(const TestLayer& layer);
  std::vector<float> bias_gradient(const TestLayer& layer);

  TestMoments make_moments(const TestLayer& layer);
  /// Updates both tensors by the step's rule; weights decay, biases do not.
  void update(TestLayer& layer, TestMoments& moments);
  /// Updates elements of one tensor.
  void update(device::UpdateRange range, TestLayer& layer, TestMoments& moments);
  /// Returns the backward pass of step() that writes the gradients of `layer`.
  device::Backward backward(TestLayer& layer, const device::GradientReady& ready = unreported,
                            const FusedUpdate* fused = nullptr) {
    return {layer.parameters, step(), layer.gradients, ready, fused};
  }
  /// Expects bitwise equal weights and moments.
  void expect_same(const TestLayer& layer, const TestMoments& moments, const TestLayer& other,
                   const TestMoments& of_other);

  /// Gathers all of `rows`, shuffled, into `batch.device`, which is made if null.
  void gather(CsrView rows, std::int64_t items, bool with_transpose, TestBatch& batch);
  void gather(const Csr& rows, std::int64_t items, bool with_transpose, TestBatch& batch) {
    gather(rows.view(), items, with_transpose, batch);
  }

  /// Calls output_layer_step() with the multinomial loss and the gradients of `layer`.
  void softmax_step(const device::Matrix& hidden, const TestBatch& batch, TestLayer& layer,
                    device::StepState& state, device::Matrix& d_hidden,
                    const device::GradientReady& ready = unreported, const FusedUpdate* update = nullptr) {
    device().output_layer_step(device::Loss::multinomial, hidden, *batch.device, layer.layer,
                               device::OutputGradients::both, d_hidden,
                               {layer.parameters, state, layer.gradients, ready, update});
  }

  /// Adds the loss of `batch` to `state`; ignores the gradients.
  void add_loss(const device::Matrix& hidden, const TestBatch& batch, TestLayer& layer,
                device::StepState& state);

  /// Records the reports of operations. `check` expects each element of the layer to be reported exactly
  /// once, and only when complete.
  class Reports {
   public:
    Reports(TestDevice& test, const TestLayer& layer) : test_(&test), layer_(&layer) {}
    /// Returns the callback; it calls `at_report` within every report.
    device::GradientReady callback(std::function<void()> at_report = {});
    void check() const;
    std::size_t count() const { return ranges_.size(); }

   private:
    TestDevice* test_;
    const TestLayer* layer_;
    std::vector<Range> ranges_;
    std::vector<std::vector<float>> at_report_;
  };

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::StepState> step_;
  std::function<std::vector<float>(const device::Buffer&)> read_;
};

/// The fixture of tests with one device.
class Contract : public ::testing::TestWithParam<ContractDevice>, public TestDevice {
 protected:
  Contract() : TestDevice(GetParam()) {}
  void SetUp() override;
};

std::string contract_name(const ::testing::TestParamInfo<ContractDevice>& info);

}  // namespace vaecf::testing
