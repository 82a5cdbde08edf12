
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>

#include "models/elsa/elsa.hpp"
#include "models/model_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::models {
namespace {

/// An item slice of a model-parallel group that never exchanges.
class SilentRank final : public device::ModelParallelGroup {
 public:
  SilentRank(int count, int index) : count_(count), index_(index) {}
  int count() const override { return count_; }
  int index() const override { return index_; }
  device::EventHandle reduce_scatter(std::span<const float>, std::span<float>, device::EventHandle) override {
    throw std::logic_error("no exchange was expected");
  }
  device::EventHandle all_gather(std::span<const float>, std::span<float>, device::EventHandle) override {
    throw std::logic_error("no exchange was expected");
  }
  device::EventHandle all_gather(std::span<const Bf16>, std::span<Bf16>, device::EventHandle) override {
    throw std::logic_error("no exchange was expected");
  }

 private:
  int count_;
  int index_;
};

constexpr std::int64_t sliced_items = 61;
constexpr std::int64_t run_multiple = 384;

ModelOptions small_options(ModelType type) {
  ModelOptions options{type, {12}, 5, 0.5};
  own_options<ElsaOptions>(options).factors = 9;
  return options;
}

TEST(ItemSlices, TensorsOfItemsAreContiguousAndAligned) {
  const auto device = fp32_device();
  testing::for_each_trained_kind([&](const TrainedKind& kind) {
    const ModelType type = kind.type();
    SilentRank rank(3, 1);
    const auto model =
        trained_kind_of(type).make(small_options(type), {sliced_items, 7, rank}, *device, 4, run_multiple);
    const auto& tensors = model->layout().tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const bool sliced = tensors[t].spec.item_slice.has_value();
      const bool elsa = tensors.size() == 1;
      EXPECT_EQ(sliced, elsa || t < 2 || t + 1 == tensors.size()) << tensors[t].spec.name;
      if (t > 0 && sliced != tensors[t - 1].spec.item_slice.has_value()) {
        EXPECT_EQ(tensors[t].range.begin % run_multiple, 0) << tensors[t].spec.name;
      }
      if (t > 0) {
        EXPECT_GE(tensors[t].range.begin, tensors[t - 1].range.end) << tensors[t].spec.name;
      }
    }
    EXPECT_EQ(model->items(), sliced_items);
    EXPECT_EQ(model->layout().size, tensors.back().range.end);
  });
}

TEST(ItemSlices, LogicalElementsAreStoredOnce) {
  testing::for_each_trained_kind([&](const TrainedKind& kind) {
    const ModelType type = kind.type();
    const ModelOptions options = small_options(type);
    const auto whole = tensor_specs(options, {sliced_items, 7});
    std::map<std::string, std::set<std::int64_t>> stored;
    for (int s = 0; s < 4; ++s) {
      SilentRank rank(4, s);
      const auto specs = tensor_specs(options, {sliced_items, 7, rank});
      ASSERT_EQ(specs.size(), whole.size());
      EXPECT_EQ(parameter_count(specs), parameter_count(whole));
      EXPECT_EQ(dense_weights(specs), dense_weights(whole));
      for (std::size_t t = 0; t < specs.size(); ++t) {
        EXPECT_EQ(specs[t].name, whole[t].name);
        EXPECT_EQ(specs[t].logical_rows(), whole[t].rows);
        EXPECT_EQ(specs[t].logical_columns(), whole[t].columns);
        if (!specs[t].item_slice && s > 0) continue;
        for (std::int64_t row = 0; row < specs[t].rows; ++row) {
          for (std::int64_t column = 0; column < specs[t].columns; ++column)
            EXPECT_TRUE(stored[specs[t].name].insert(specs[t].logical_index(row, column)).second);
        }
      }
    }
    for (const device::TensorSpec& spec : whole) {
      const auto& indices = stored.at(spec.name);
      EXPECT_EQ(std::ssize(indices), spec.rows * spec.columns) << spec.name;
      EXPECT_EQ(*indices.rbegin(), spec.rows * spec.columns - 1) << spec.name;
    }
  });
}

TEST(ItemSlices, ExcludedItemsAreThoseOfTheItemSlice) {
  const auto device = fp32_device();
  SilentRank rank(3, 2);
  const InputDims inputs{sliced_items, 0, rank};
  Network model(shape_of(small_options(ModelType::mult_dae), inputs), inputs, *device, 4);
  std::vector<std::uint8_t> allowed(sliced_items, 1);
  allowed[2] = allowed[8] = allowed[9] = 0;  // items 2 and 8 are the first and third item of item slice 2
  model.restrict_to(allowed);
  const auto bias = weights_of(*device, model, "decoder_2/bias");
  ASSERT_EQ(bias.size(), 20U);
  for (std::size_t j = 0; j < bias.size(); ++j) EXPECT_EQ(std::isinf(bias[j]), j == 0 || j == 2) << j;
}

}  // namespace
}  // namespace vaecf::models
