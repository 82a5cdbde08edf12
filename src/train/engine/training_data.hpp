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

/// Plans buckets of distributed.bucket_mib for the elements `groups` of flat buffers; each bucket has one
/// part for each of `owners` ranks.
inline comm::BucketPlan bucket_plan(const TrainingConfig& options, const std::vector<Range>& groups,
                                    int owners) {
  const double elements = options.distributed.bucket_mib * 1048576.0 / sizeof(float);
  return {groups, std::max<std::int64_t>(1, static_cast<std::int64_t>(elements)), owners};
}

/// The sparse rows of this rank's training users, items or features, and the batch gathered from them.
template <class Device>
class ShardRows {
 public:
  /// Row 0 belongs to training user `first_user`. Columns must be less than `width`.
  ShardRows(Device& device, Csr rows, std::int64_t first_user, std::int64_t width)
      : device_(device),
        rows_(std::move(rows)),
        bytes_(static_cast<std::int64_t>(rows_.offsets.size() * sizeof(std::int64_t) +
                                         rows_.columns.size() * sizeof(std::int32_t))),
        held_(device.make_user_rows(rows_.view(), first_user, width)),
        schedule_(device.make_batch_schedule()),
        batch_(device.make_batch()) {
    if (device.device() != "cpu") rows_ = {};  // GPUs have their own copy
  }

  void upload_pass(const data::EpochRows& batches) {
    device_.upload_batch_schedule(*held_, batches.rows, batches.begin, *schedule_);
  }
  void start_pass() { device_.start_batch_schedule(*held_, *schedule_); }
  std::int64_t users(std::int64_t batch) const { return schedule_->users(batch); }
  void prepare(std::int64_t batch) { device_.prepare_batch(*held_, *schedule_, batch); }
  /// Gathers the batch selected by `step`, which has `users` users of this rank.
  const typename Device::Batch& gather(const typename Device::StepState& step, std::int64_t users) {
    device_.gather_scheduled_batch(*held_, *schedule_, step, users, *batch_);
    return *batch_;
  }

  const typename Device::UserRows& held() const { return *held_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Device& device_;
  Csr rows_;
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
      : TrainingData(on, setup, size_multiple, model_input_dims(setup.options, setup.dataset)) {}

  void upload_pass(const data::EpochRows& batches) {
    items.upload_pass(batches);
    if (features) features->upload_pass(batches);
  }
  void start_pass() {
    items.start_pass();
    if (features) features->start_pass();
  }
  void start_epoch() {
    device.clear_losses(*state);
    model->start_epoch();
  }
  /// Must precede the start of the step on batch `batch`.
  void prepare(std::int64_t batch) {
    items.prepare(batch);
    if (features) features->prepare(batch);
  }
  /// Gathers the batch selected by `state`, which has `users` users of this rank.
  model::NetworkInput<typename Device::Batch> gather(std::int64_t users) {
    return {items.gather(*state, users), features ? &features->gather(*state, users) : nullptr};
  }

  Device& device;
  ShardRows<Device> items;
  std::unique_ptr<ShardRows<Device>> features;  ///< null if the model has none
  std::unique_ptr<typename Device::StepState> state;
  std::unique_ptr<model::TrainableModel<Device>> model;

 private:
  TrainingData(Device& on, const TrainingSetup& setup, std::int64_t size_multiple, model::InputDims inputs)
      : device(on),
        items(on, setup.dataset.read_rows("train", setup.rows), setup.rows.begin, inputs.items),
        features(inputs.features == 0 ? nullptr
                                      : std::make_unique<ShardRows<Device>>(
                                            on, setup.dataset.read_rows("train/features", setup.rows),
                                            setup.rows.begin, inputs.features)),
        state(on.make_step_state()),
        model(model::make_trainable_model(setup.options.model, inputs, on, setup.max_users, size_multiple)) {
    model->initialize(setup.options.train.seed);
  }
};

}  // namespace vaecf::train
