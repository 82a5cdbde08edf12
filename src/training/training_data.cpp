#include "training/training_data.hpp"

#include <vaecf/models/kind.hpp>

#include <utility>

namespace vaecf::training {
namespace {

/// Reads rows `rows` of /train and keeps their part in this rank's item slice; in blocks, because
/// each rank of a model-parallel group reads the rows of all its users.
ItemSliceRows read_train_rows(const io::DatasetFile& dataset, Range rows, const ItemSlice& item_slice) {
  if (item_slice.step == 1) return {dataset.read_rows("train", rows), item_slice};
  constexpr std::int64_t block_rows = 1 << 16;
  ItemSliceRows part;
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += block_rows) {
    const Csr block = dataset.read_rows("train", {begin, std::min(rows.end, begin + block_rows)});
    part.append(block.view(), item_slice);
  }
  return part;
}

}  // namespace

ShardRows::ShardRows(device::Device& device, ItemSliceRows rows, std::int64_t first_user, std::int64_t width,
                     device::ModelParallelGroup& model_parallel)
    : device_(device),
      rows_(std::move(rows)),
      bytes_(static_cast<std::int64_t>(rows_.rows.offsets.size() * sizeof(std::int64_t) +
                                       rows_.rows.columns.size() * sizeof(std::int32_t) +
                                       rows_.rows.values.size() * sizeof(float) +
                                       rows_.totals.size() * sizeof(RowTotals))),
      held_(device.make_user_rows(rows_.view(), first_user, width, model_parallel)),
      schedule_(device.make_batch_schedule()),
      batch_(device.make_batch()) {
  if (device.facts().kind != device::DeviceKind::cpu) rows_ = {};  // GPUs have their own copy
}

TrainingData::TrainingData(device::Device& on, const io::DatasetFile& dataset, Range rows,
                           const models::ModelOptions& options, const models::InputDims& inputs,
                           std::int64_t max_users, std::int64_t size_multiple, std::uint64_t seed)
    : device(on),
      model_parallel(*inputs.model_parallel),
      items(on, read_train_rows(dataset, rows, model_parallel.item_slice(inputs.items)), rows.begin,
            inputs.items, model_parallel),
      features(inputs.features == 0
                   ? nullptr
                   : std::make_unique<ShardRows>(
                         on, ItemSliceRows{dataset.read_rows("train/user_features", rows), {}}, rows.begin,
                         inputs.features, device::single_rank())),
      state(on.make_step_state()),
      model(models::trained_kind_of(options.type).make(options, inputs, on, max_users, size_multiple)) {
  model->initialize(seed);
}

void TrainingData::upload_pass(const data::EpochRows& batches) {
  items.upload_pass(batches);
  if (features) features->upload_pass(own_users(batches));
}

void TrainingData::start_pass() {
  items.start_pass();
  if (features) features->start_pass();
}

models::NetworkInput TrainingData::gather(std::int64_t users) {
  const std::int64_t own = model_parallel.own_users(users).size();
  return {items.gather(*state, users), features ? &features->gather(*state, own) : nullptr};
}

// The users of each batch that this rank carries through the layers, whose features it reads.
data::EpochRows TrainingData::own_users(const data::EpochRows& batches) const {
  if (model_parallel.count() == 1) return batches;
  data::EpochRows own{batches.epoch, {}, {0}};
  for (std::size_t t = 0; t + 1 < batches.begin.size(); ++t) {
    const Range users = model_parallel.own_users(batches.begin[t + 1] - batches.begin[t]);
    const auto first = batches.rows.begin() + batches.begin[t];
    own.rows.insert(own.rows.end(), first + users.begin, first + users.end);
    own.begin.push_back(std::ssize(own.rows));
  }
  return own;
}

}  // namespace vaecf::training
