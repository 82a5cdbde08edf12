#include <algorithm>
#include <span>
#include <vector>

#include "models/ease/ease_values.hpp"
#include "models/linear/item_models_fixture.hpp"

namespace vaecf::training {
namespace {

using StoredWeights = TrainTest;

TEST_F(StoredWeights, OfOtherShapesOrModelsAreRefused) {
  options_.model.type = ModelType::ease;
  own_options<models::EaseOptions>(options_.model).l2 = {20.0};
  options_.validation.baselines = {};
  train_on(1);
  const io::CheckpointFile whole(run_folder().best());
  const auto refused = [&](std::vector<io::TensorSource> tensors, std::vector<io::ArraySource> arrays,
                           const std::string& because) {
    io::write_checkpoint(file("bad.h5"), whole.attributes(), tensors, arrays);
    on_ranks(2, [&](const run::Run& run) {
      expect_error<InputError>({because}, [&] { test(run, file("bad.h5")); });
    });
  };
  const auto rows = [](std::int64_t, std::int64_t, std::span<float> out) { std::ranges::fill(out, 1.0F); };
  refused({{"weights/items/matrix", 60, 59, false, rows}}, {}, "matrix");
  std::vector<std::int64_t> indptr(61, 0);
  indptr[60] = 1;
  const std::vector<std::int32_t> outside = {60}, inside = {59};
  const std::vector<float> one = {1.0F}, two = {1.0F, 2.0F};
  const auto sparse = [&](std::span<const std::int32_t> indices, std::span<const float> data) {
    return std::vector<io::ArraySource>{
        {"weights/items/indptr", indptr}, {"weights/items/indices", indices}, {"weights/items/data", data}};
  };
  refused({}, sparse(outside, one), "indices");
  refused({}, sparse(inside, two), "data");
  std::vector<io::ArraySource> with_scales = sparse(inside, one);
  const std::vector<float> ones(60, 1.0F);
  with_scales.push_back({"weights/items/factor_source", ones});
  refused({{"weights/items/factors", 60, 3, false, rows}}, with_scales, "weights/items/factor_target");
  with_scales.push_back({"weights/items/factor_target", ones});
  refused({{"weights/items/factors", 59, 3, false, rows}}, with_scales, "weights/items/factors");
  indptr[5] = 2;
  refused({}, sparse(inside, one), "indptr");
  options_.model.type = ModelType::item_knn;
  refused({}, {}, "model.type is item_knn, but the checkpoint contains a model of type ease");
  options_.model.type = ModelType::mult_vae;
  refused({}, {},
          "is missing, which the configured model needs; the checkpoint contains a model of type ease;");
}

}  // namespace
}  // namespace vaecf::training
