#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/device/options.hpp>

namespace vaecf::cuda {

// The names of device:: that the CUDA device uses.
using device::Activation, device::Backward, device::Bf16Buffer, device::Buffer, device::EventHandle,
    device::FusedUpdate, device::InputScaling, device::ModelParallelGroup, device::Layer, device::Loss,
    device::LossScale, device::LossSums, device::Matrix, device::Moments, device::Norm,
    device::OutputGradients, device::own, device::ParameterLayout, device::Parameters, device::SideFeatures,
    device::TensorLayout, device::TensorSpec, device::UpdateRange, device::UpdateRule;

}  // namespace vaecf::cuda
