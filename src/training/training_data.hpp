#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <memory>

namespace vaecf::training {

/// The sparse rows of this rank's training users, items or features, and the batch gathered from them.
class ShardRows {
 public:
  /// Row 0 belongs to training user `first_user`. Columns are those of the item slice of `width` columns that
  /// `model_parallel` has.
  ShardRows(device::Device& device, ItemSliceRows rows, std::int64_t first_user, std::int64_t width,
            device::ModelParallelGroup& model_parallel);

  void upload_pass(const data::EpochRows& batches) {
    device_.upload_batch_schedule(*held_, batches.rows, batches.begin, *schedule_);
  }
  void start_pass() { device_.start_batch_schedule(*held_, *schedule_); }
  std::int64_t users(std::int64_t batch) const { return schedule_->users(batch); }
  /// Gathers the batch selected by `step`, which has `users` users of this rank.
  const device::Batch& gather(const device::StepState& step, std::int64_t users) {
    device_.gather_scheduled_batch(*held_, *schedule_, step, users, *batch_);
    return *batch_;
  }

  const device::UserRows& held() const { return *held_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  device::Device& device_;
  ItemSliceRows rows_;
  std::int64_t bytes_;
  std::unique_ptr<device::UserRows> held_;
  std::unique_ptr<device::BatchSchedule> schedule_;
  std::unique_ptr<device::Batch> batch_;
};

/// The data of a training on a device, for all strategies: this rank's users, the model, and the step state.
class TrainingData {
 public:
  /// Reads users `rows` of /train of this rank's model-parallel group (empty on a parameter server), and
  /// makes the model with initial weights for `seed`, for batches of at most `max_users` users of the
  /// model-parallel group. Pads the buffer of weights to a multiple of `size_multiple` elements.
  TrainingData(device::Device& device, const io::DatasetFile& dataset, Range rows,
               const models::ModelOptions& options, const models::InputDims& inputs, std::int64_t max_users,
               std::int64_t size_multiple, std::uint64_t seed);

  void upload_pass(const data::EpochRows& batches);
  void start_pass();
  /// Gathers the batch selected by the step state, which has `users` users of this rank's model-parallel
  /// group.
  models::NetworkInput gather(std::int64_t users);

  device::Device& device;
  device::ModelParallelGroup& model_parallel;
  ShardRows items;
  std::unique_ptr<ShardRows> features;  ///< null if the model has none
  std::unique_ptr<device::StepState> state;
  std::unique_ptr<models::TrainableModel> model;

 private:
  data::EpochRows own_users(const data::EpochRows& batches) const;
};

}  // namespace vaecf::training
