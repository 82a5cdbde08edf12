#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/device/parameters.hpp>
#include <vaecf/model/make_model.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/train.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::train {

/// Plans buckets of distributed.bucket_mib for the elements `groups` of flat buffers, the first of which
/// begins at `begin`; each bucket has one part for each of `owners` ranks.
inline comm::BucketPlan bucket_plan(const TrainingConfig& options, const std::vector<Range>& groups,
                                    int owners, std::int64_t begin = 0) {
  const double elements = options.distributed.bucket_mib * 1048576.0 / sizeof(float);
  return {groups, std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)), owners, begin};
}

/// Reads rows `rows` of /train and keeps their part in this rank's slice of the items; in blocks, because
/// each rank of a group reads the rows of all its users.
inline RowsOfSlice read_train_rows(const io::DatasetFile& dataset, Range rows, const ItemSlice& slice) {
  if (slice.step == 1) return {dataset.read_rows("train", rows), slice};
  constexpr std::int64_t block_rows = 1 << 16;
  RowsOfSlice part;
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += block_rows) {
    const Csr block = dataset.read_rows("train", {begin, std::min(rows.end, begin + block_rows)});
    part.append(block.view(), slice);
  }
  return part;
}

/// The sparse rows of this rank's training users, items or features, and the batch gathered from them.
template <class Device>
class ShardRows {
 public:
  /// Row 0 belongs to training user `first_user`. Columns are those of the slice of `width` columns that
  /// `slices` has.
  ShardRows(Device& device, RowsOfSlice rows, std::int64_t first_user, std::int64_t width,
            device::ItemSlices& slices)
      : device_(device),
        rows_(std::move(rows)),
        bytes_(static_cast<std::int64_t>(rows_.rows.offsets.size() * sizeof(std::int64_t) +
                                         (rows_.rows.columns.size() + rows_.sizes.size()) *
                                             sizeof(std::int32_t))),
        held_(device.make_user_rows(rows_.view(), first_user, width, slices)),
        schedule_(device.make_batch_schedule()),
        batch_(device.make_batch()) {
    if (device.device() != "cpu") rows_ = {};  // GPUs have their own copy
  }

  void upload_pass(const data::EpochRows& batches) {
    device_.upload_batch_schedule(*held_, batches.rows, batches.begin, *schedule_);
  }
  void start_pass() { device_.start_batch_schedule(*held_, *schedule_); }
  std::int64_t users(std::int64_t batch) const { return schedule_->users(batch); }
  /// Gathers the batch selected by `step`, which has `users` users of this rank.
  const typename Device::Batch& gather(const typename Device::StepState& step, std::int64_t users) {
    device_.gather_scheduled_batch(*held_, *schedule_, step, users, *batch_);
    return *batch_;
  }

  const typename Device::UserRows& held() const { return *held_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Device& device_;
  RowsOfSlice rows_;
  std::int64_t bytes_;
  std::unique_ptr<typename Device::UserRows> held_;
  std::unique_ptr<typename Device::BatchSchedule> schedule_;
  std::unique_ptr<typename Device::Batch> batch_;
};

/// The data of a training on a device, for all strategies: this rank's users, the model, and the step
/// state.
template <class Device>
struct TrainingData {
  /// Pads the buffer of weights to a multiple of `size_multiple` elements.
  TrainingData(Device& on, const TrainingSetup& setup, std::int64_t size_multiple)
      : TrainingData(on, setup, size_multiple,
                     model_input_dims(setup.options, setup.dataset, setup.grid.item_slices())) {}

  void upload_pass(const data::EpochRows& batches) {
    items.upload_pass(batches);
    if (features) features->upload_pass(own_users(batches));
  }
  void start_pass() {
    items.start_pass();
    if (features) features->start_pass();
  }
  void start_epoch() {
    device.clear_losses(*state);
    model->start_epoch();
  }
  /// Gathers the batch selected by `state`, which has `users` users of this rank's group.
  model::NetworkInput<typename Device::Batch> gather(std::int64_t users) {
    const std::int64_t own = slices.own_users(users).size();
    return {items.gather(*state, users), features ? &features->gather(*state, own) : nullptr};
  }

  Device& device;
  device::ItemSlices& slices;
  ShardRows<Device> items;
  std::unique_ptr<ShardRows<Device>> features;  ///< null if the model has none
  std::unique_ptr<typename Device::StepState> state;
  std::unique_ptr<model::TrainableModel<Device>> model;

 private:
  TrainingData(Device& on, const TrainingSetup& setup, std::int64_t size_multiple, model::InputDims inputs)
      : device(on),
        slices(*inputs.slices),
        items(on, read_train_rows(setup.dataset, setup.rows, inputs.slices->slice(inputs.items)),
              setup.rows.begin, inputs.items, *inputs.slices),
        features(inputs.features == 0 ? nullptr : read_features(on, setup, inputs)),
        state(on.make_step_state()),
        model(model::make_trainable_model(setup.options.model, inputs, on, setup.max_users, size_multiple)) {
    model->initialize(setup.options.train.seed);
  }
  /// Returns the users of each batch that this rank carries through the layers, whose features it reads.
  data::EpochRows own_users(const data::EpochRows& batches) const {
    if (slices.count() == 1) return batches;
    data::EpochRows own{batches.epoch, {}, {0}};
    for (std::size_t t = 0; t + 1 < batches.begin.size(); ++t) {
      const Range users = slices.own_users(batches.begin[t + 1] - batches.begin[t]);
      const auto first = batches.rows.begin() + batches.begin[t];
      own.rows.insert(own.rows.end(), first + users.begin, first + users.end);
      own.begin.push_back(std::ssize(own.rows));
    }
    return own;
  }
  /// Reads the features of the group's users, which are not divided.
  static std::unique_ptr<ShardRows<Device>> read_features(Device& on, const TrainingSetup& setup,
                                                          const model::InputDims& inputs) {
    RowsOfSlice rows;
    rows.rows = setup.dataset.read_rows("train/features", setup.rows);
    return std::make_unique<ShardRows<Device>>(on, std::move(rows), setup.rows.begin, inputs.features,
                                               device::one_slice());
  }
};

}  // namespace vaecf::train
