#include <vaecf/base/error.hpp>
#include <vaecf/models/kind.hpp>

#include <gtest/gtest.h>

#include "models/model_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::models {
namespace {

TEST(Kinds, AreInTheOrderOfTheirTypes) {
  std::int64_t count = 0;
  for (const auto& [type, name] : enum_names<ModelType>) {
    EXPECT_EQ(kind_of(type).type(), type) << name;
    EXPECT_EQ(find_kind(name), &kind_of(type));
    EXPECT_NE(kind_of(type).solved() != nullptr, kind_of(type).trained() != nullptr) << name;
    if (is_solved(type)) {
      EXPECT_THROW(tensor_specs({.type = type}, 30), InputError) << name;
    }
    ++count;
  }
  EXPECT_EQ(std::ssize(all_kinds()), count);
  EXPECT_EQ(find_kind("popularity"), nullptr);
}

TEST(Kinds, DerivedTensorsAreStoredBesideTheParameters) {
  const auto device = fp32_device();
  testing::for_each_trained_kind([&](const TrainedKind& kind) {
    const ModelOptions options{.type = kind.type(), .hidden = {20}, .latent = 6};
    const auto model = kind.make(options, 60, *device, 4);
    std::int64_t stored = 0;
    if (const device::Parameters* prior = model->prior()) stored += prior->layout().parameter_count();
    if (&model->output_parameters() != &model->parameters())
      stored += model->output_parameters().layout().parameter_count();
    EXPECT_EQ(parameter_count(kind.derived_tensors(options, 60)), stored);
  });
}

TEST(Kinds, CostOfTrainingIsThatOfItsParts) {
  const auto alone = comm::make_self_communicator();
  const auto device = fp32_device();
  Log log;
  Progress progress;
  const Context context{*alone, *device, log, progress};
  testing::for_each_trained_kind([&](const TrainedKind& kind) {
    const ModelOptions options{.type = kind.type(), .hidden = {20}, .latent = 6};
    const Workload small{.context = context, .inputs = 1000, .batch_users = 50};
    const auto tensors = kind.tensors(options, 1000);
    const auto parameters = static_cast<double>(parameter_count(tensors));
    const auto derived = static_cast<double>(parameter_count(kind.derived_tensors(options, 1000)));
    // Scores of 256 users in evaluation and, unless the loss needs no scores, exponentials of the batch.
    const bool scores = std::ranges::any_of(tensors, [](const device::TensorSpec& tensor) {
      return tensor.kind == device::TensorKind::output_table;
    });
    const double outputs = 4.0 * 1000.0 * (256.0 + (scores ? 50.0 : 0.0));
    const double program = 64.0 * 1048576.0;
    const Cost cost = kind.cost(options, small);
    EXPECT_EQ(cost.host_bytes, 16.0 * parameters + 4.0 * derived + outputs + program);
    EXPECT_EQ(cost.device_bytes, 16.0 * parameters + 4.0 * derived);
    EXPECT_EQ(cost.checkpoint_bytes, 12.0 * parameters);
    EXPECT_EQ(cost.operations, kind.operations(options, tensors));
    EXPECT_TRUE(cost.memory.starts_with(format("about {:.0f} MiB per rank (", cost.host_bytes / 1048576.0)));

    Workload large = small;
    large.train_users = 1000;
    large.train_entries = 1'000'000;
    EXPECT_EQ(kind.cost(options, large).host_bytes - cost.host_bytes,
              4e6 + 1e3 * (sizeof(std::int64_t) + sizeof(RowTotals)));
    large.weighted = true;
    EXPECT_EQ(kind.cost(options, large).host_bytes - cost.host_bytes,
              8e6 + 1e3 * (sizeof(std::int64_t) + sizeof(RowTotals)));
    EXPECT_EQ(kind.cost(options, large).device_bytes, cost.device_bytes);

    Workload slices = small;
    slices.item_slices = 4;
    const double table = parameters - parameters_of_rank(tensors, 1000, 4);  // three of four slices
    const double of_derived = derived - parameters_of_rank(kind.derived_tensors(options, 1000), 1000, 4);
    EXPECT_GT(table, 0.0);
    EXPECT_EQ(kind.cost(options, slices).device_bytes, cost.device_bytes - 16.0 * table - 4.0 * of_derived);
  });
}

TEST(Kinds, CostOfTrainingInHalfPrecisionIncludesTheCopiesOfWeights) {
  const auto alone = comm::make_self_communicator();
  Log log;
  Progress progress;
  const auto bytes_in = [&](device::Precision precision, const TrainedKind& kind,
                            const ModelOptions& options) {
    const auto device =
        cpu::make_device({device::DeviceChoice::cpu, precision, device::Kernels::automatic, 1});
    const auto model = kind.make(options, 1000, *device, 4);
    const auto copies_in = [](const device::Parameters& parameters) {
      return parameters.copied_count({0, std::ssize(parameters.layout().tensors)});
    };
    std::int64_t copied = copies_in(model->parameters());
    if (&model->output_parameters() != &model->parameters()) copied += copies_in(model->output_parameters());
    const Context context{*alone, *device, log, progress};
    return std::pair(copied, kind.cost(options, {.context = context, .inputs = 1000}).host_bytes);
  };
  testing::for_each_trained_kind([&](const TrainedKind& kind) {
    const ModelOptions options{.type = kind.type(), .hidden = {20}, .latent = 6};
    const auto [no_copies, bytes] = bytes_in(device::Precision::fp32, kind, options);
    const auto [copied, bytes_in_half] = bytes_in(device::Precision::bf16, kind, options);
    EXPECT_EQ(no_copies, 0);
    EXPECT_GT(copied, 0);
    EXPECT_EQ(bytes_in_half - bytes, 2.0 * static_cast<double>(copied));
  });
}

}  // namespace
}  // namespace vaecf::models
