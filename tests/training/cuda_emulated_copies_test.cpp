// Every 16-bit copy of an activation or gradient is written in a step before it is read.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "device/cuda/device.hpp"
#include "models/model_fixture.hpp"
#include "models/network/network.hpp"

namespace vaecf::training {
namespace {

/// A device whose activations, values and copies, start as NaN.
class Poisoning : public cuda::Device {
 public:
  Poisoning(const device::BackendOptions& options, bool poisons)
      : cuda::Device(options, 0), poisons_(poisons) {}

  device::Matrix make_matrix(std::int64_t max_rows, std::int64_t columns) override {
    device::Matrix made = cuda::Device::make_matrix(max_rows, columns);
    if (!poisons_) return made;
    const std::vector<float> nan(static_cast<std::size_t>(max_rows * columns),
                                 std::numeric_limits<float>::quiet_NaN());
    write_matrix(made, max_rows, nan);
    return made;
  }

 private:
  bool poisons_;
};

/// Returns the gradient, nll, kl and users of one step; with `poisoned`, on activations that were full of
/// NaN.
std::vector<double> step_of(const models::ModelOptions& options, bool poisoned) {
  constexpr std::int64_t users = 33;
  constexpr std::int64_t items = 100;
  Poisoning device({.device = device::DeviceChoice::cuda, .precision = device::Precision::fp16}, poisoned);
  models::Network network(models::shape_of(options, items), items, device, users);
  models::initialize(network, network.shape(), 5);
  Csr rows;
  for (std::int64_t user = 0; user < users; ++user) {
    for (std::int64_t item = user % 7; item < items; item += 5 + user)
      rows.columns.push_back(static_cast<std::int32_t>(item));
    rows.offsets.push_back(std::ssize(rows.columns));
  }
  const models::WholeBatch whole(device, rows, 0, items);
  auto gradients = device.make_buffer(network.layout().size);
  const auto state = device.make_step_state();
  device.set_loss_scale({1.0F, 0}, *state);
  device.begin_step({9, 3, 0, 0.2F, {}}, *state);
  device::StepTimer timer(device, false);
  network.forward_backward({*whole.batch}, {network.parameters(), *state, gradients, {}}, 0, timer);
  device.end_step(*state);
  const device::LossSums sums = device.sums(*state).losses;
  std::vector<double> result(gradients.data(), gradients.data() + gradients.size());
  result.insert(result.end(), {sums.nll, sums.kl, static_cast<double>(sums.users)});
  return result;
}

TEST(CudaEmulatedCopies, OnlyWrittenCopiesAreRead) {
  for (const ModelType type : {ModelType::mult_vae, ModelType::mult_dae}) {
    for (const auto& hidden : std::vector<std::vector<std::int64_t>>{{}, {24}, {24, 13}}) {
      for (const std::int64_t latents : {12, 10}) {
        SCOPED_TRACE(::testing::Message()
                     << vaecf::to_string(type) << " with " << hidden.size() << " hidden layers");
        const models::ModelOptions options{.type = type, .hidden = hidden, .latent = latents};
        const std::vector<double> expected = step_of(options, false);
        for (const double value : expected) ASSERT_TRUE(std::isfinite(value));
        EXPECT_EQ(step_of(options, true), expected);
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::training
