#pragma once

#include <vaecf/device/step_timer.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/device.hpp"
#include "models/elsa/elsa.hpp"
#include "models/network/network.hpp"
#include "models/network/network_kind.hpp"
#include "models/recvae/recvae.hpp"

namespace vaecf::models {

/// Returns the layers of a network.
inline NetworkShape shape_of(const ModelOptions& options, InputDims inputs) {
  return dynamic_cast<const NetworkKind&>(kind_of(options.type)).shape(options, inputs);
}

inline std::unique_ptr<device::Device> fp32_device(device::Kernels kernels = device::Kernels::automatic) {
  return cpu::make_device({device::DeviceChoice::cpu, device::Precision::fp32, kernels, 1});
}

inline std::vector<float> export_tensor(const device::Device& device, const device::ParameterLayout& layout,
                                        const std::string& name, const device::Buffer& flat) {
  const int tensor = layout.find(name);
  const device::TensorSpec& spec = layout.tensors[static_cast<std::size_t>(tensor)].spec;
  std::vector<float> values(static_cast<std::size_t>(spec.rows * spec.columns));
  device.export_rows(layout, tensor, {0, spec.rows}, flat, values);
  return values;
}

/// Imports a tensor into `flat`. The caller must call refresh_copies() if `flat` is the master buffer.
inline void import_tensor(device::Device& device, const device::ParameterLayout& layout,
                          const std::string& name, std::span<const float> values, device::Buffer& flat) {
  const int tensor = layout.find(name);
  const device::TensorSpec& spec = layout.tensors[static_cast<std::size_t>(tensor)].spec;
  device.import_rows(layout, tensor, {0, spec.rows}, values, flat);
}

/// All rows of `csr` as one batch; the first row is user `first_user`.
struct WholeBatch {
  WholeBatch(device::Device& device, const Csr& csr, std::int64_t first_user, std::int64_t items)
      : rows(device.make_user_rows(csr.view(), first_user, items, device::single_rank())),
        batch(device.make_batch()) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(csr.rows()));
    std::iota(numbers.begin(), numbers.end(), 0);
    device.gather_batch(*rows, numbers, true, *batch);
  }
  std::unique_ptr<device::UserRows> rows;
  std::unique_ptr<device::Batch> batch;
};

/// Runs `work` as a separate step and returns its losses.
template <class Work>
device::LossSums losses_of(device::Device& device, const device::StepParams& params, Work&& work) {
  const auto step = device.make_step_state();
  device.begin_step(params, *step);
  work(*step);
  device.end_step(*step);
  return device.sums(*step).losses;
}

/// Runs one step of a model up to the gradient.
inline device::LossSums gradient_step(device::Device& device, TrainableModel& model,
                                      const NetworkInput& input, device::Buffer& gradients,
                                      const device::StepParams& params = {}, int parameter_group = 0,
                                      const device::GradientReady& ready = {}) {
  device::StepTimer timer(device, false);
  return losses_of(device, params, [&](device::StepState& step) {
    model.forward_backward(input, {model.parameters(), step, gradients, ready}, parameter_group, timer);
  });
}

/// Returns the master weights of a tensor.
inline std::vector<float> weights_of(const device::Device& device, TrainableModel& model,
                                     const std::string& name) {
  return export_tensor(device, model.layout(), name, model.parameters().master());
}

/// The best items of one user.
struct BestItems {
  BestItems(Model& model, LoadedUsers& users, std::size_t k, bool keep_seen = false) : items(k), scores(k) {
    model.top_k(users, {0, 1}, History::items, keep_seen, static_cast<int>(k), items, scores);
  }
  std::vector<std::int32_t> items;
  std::vector<float> scores;
};

inline double norm(std::span<const float> values) {
  double sum = 0.0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

/// Returns ||a - b|| / ||b||, or 0 if both are zero.
template <class A, class B>
double relative_difference(const std::vector<A>& a, const std::vector<B>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / size);
}

}  // namespace vaecf::models
