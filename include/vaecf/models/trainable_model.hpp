#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/device/model_parallel_group.hpp>
#include <vaecf/device/step_timer.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/models/model.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vaecf::io {
class CheckpointFile;
class DatasetFile;
}  // namespace vaecf::io

namespace vaecf::models {

/// Sizes of the input: number of items of all item slices, number of features per user (0: none), and the
/// model-parallel group, which must outlive the model.
struct InputDims {
  InputDims(std::int64_t item_count, std::int64_t feature_count = 0,
            device::ModelParallelGroup& ranks = device::single_rank())
      : items(item_count), features(feature_count), model_parallel(&ranks) {}
  std::int64_t items;
  std::int64_t features;
  device::ModelParallelGroup* model_parallel;

  /// Returns this rank's item slice, or nullopt if it holds all of them.
  std::optional<ItemSlice> item_slice() const {
    return model_parallel->count() > 1 ? std::optional(model_parallel->item_slice(items)) : std::nullopt;
  }
};

/// Returns the input dimensions of the model of `options`: the items of `dataset`, its user features unless
/// model.user_features is false or the model takes none, and the model-parallel group.
InputDims input_dims(const ModelOptions& options, const io::DatasetFile& dataset,
                     device::ModelParallelGroup& model_parallel = device::single_rank());

/// Returns the tensors of a model of type `options.type`, in the same order. Throws InputError if the type
/// is solved or `options` are not valid for it.
std::vector<device::TensorSpec> tensor_specs(const ModelOptions& options, InputDims inputs);

/// Returns the layout with the begin of each run of tensors that are item slices, and of tensors that are
/// not, rounded up to a multiple of `multiple` elements, so that each run can be reduced over other ranks.
/// Layouts without item slices do not change.
device::ParameterLayout align_item_slices(device::ParameterLayout layout, std::int64_t multiple);

/// Returns whether item slices divide a tensor of a model of `items` items: a table of items or their biases.
bool is_divided(const device::TensorSpec& tensor, std::int64_t items);
/// Returns the number of weights and biases of the whole model.
std::int64_t parameter_count(const std::vector<device::TensorSpec>& tensors);
/// Returns the number of weights and biases on a rank of one of `item_slices` item slices of `items` items.
double parameters_of_rank(const std::vector<device::TensorSpec>& tensors, std::int64_t items,
                          int item_slices);
/// Returns the number of weights in dense layers of the whole model. Input tables are excluded, because their
/// layer is a gather.
std::int64_t dense_weights(const std::vector<device::TensorSpec>& tensors);

/// A scorer with tensors of known shapes, which are read and written by rows.
class Model : public Scorer {
 public:
  /// Returns the shapes of the model's tensors, in the order in which tensor indices count. A checkpoint
  /// stores them below /weights.
  virtual std::vector<device::TensorSpec> tensors() const = 0;
  /// Copies `rows` of tensor `tensor` into `values`, row-major.
  virtual void read_rows(int tensor, Range rows, std::span<float> values) const = 0;
  /// Overwrites `rows` of tensor `tensor` with `values`, row-major.
  virtual void write_rows(int tensor, Range rows, std::span<const float> values) = 0;
  /// Must be called after the last write_rows() and before the model is used.
  virtual void finish_writing() = 0;
};

/// The least number of rows in which a tensor is read and written: an output table is stored by items, and
/// slow to read row by row.
inline constexpr std::int64_t min_block_rows = 8;

/// Reads the weights of a checkpoint on rank 0, for all ranks. All ranks must call the functions in the same
/// order. Errors are InputErrors, thrown on all ranks.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  /// Calls `read` with the file on rank 0 only. Collective.
  virtual void read_file(const std::function<void(const io::CheckpointFile&)>& read) = 0;
  /// Reads the weights of a model, in blocks of rows. Throws InputError if tensors are missing or have other
  /// shapes than those of the model. Collective.
  virtual void load_weights(Model& model) = 0;
};

/// Input of a network: a batch of users' items and, if the model has features, a batch of the features of its
/// own users.
struct NetworkInput {
  const device::Batch& items;
  const device::Batch* features = nullptr;
};

struct DeviceUsers;

/// A model that is trained by steps on batches of users, with the operations of a device. This class contains
/// the weights, and implements evaluation and top k for models whose scores are those of an output layer; a
/// derived class implements the passes through the layers. Every batch may have 0 users.
class TrainableModel : public Model {
 public:
  /// Makes a model with zero weights for batches of up to `max_rows` users of the model-parallel group. The
  /// size of the weights' buffer is rounded up to a multiple of `size_multiple`, as is the begin of a run of
  /// item slices in `layout`; the additional elements are zero. `device` must outlive the model.
  TrainableModel(device::Device& device, InputDims inputs, device::ParameterLayout layout,
                 std::int64_t max_rows, std::int64_t size_multiple);

  /// Returns the ranges of flat elements that a step updates; each step updates one of them. Every parameter
  /// is in one parameter group. Parameter groups begin at multiples of `size_multiple`.
  virtual std::vector<Range> parameter_groups() const { return {{0, layout().size}}; }

  /// Returns the parameters of the prior, which the loss needs beside parameters(), or null. They are copies
  /// of the flat elements prior_elements(), of the time of the last start_epoch().
  virtual device::Parameters* prior() { return nullptr; }
  /// Returns the flat elements of parameters() that prior() copies; empty without a prior.
  virtual Range prior_elements() const { return {}; }
  /// Copies parameters() to prior(). Must be called before the first step of an epoch.
  void start_epoch();

  /// Overwrites all weights with the initial values for `seed`. They do not depend on the device or the
  /// number of ranks.
  virtual void initialize(std::uint64_t seed) = 0;

  /// Adds the loss terms of the batch's users to the step, and writes the gradient of the loss with respect
  /// to the parameters of `parameter_group`, as sums over users. The KL weight beta and the random seed are
  /// those of the step. With fused updates, the tensors fused_tensors() are updated immediately.
  virtual void forward_backward(const NetworkInput& batch, const device::Backward& backward,
                                int parameter_group, device::StepTimer& timer) = 0;

  /// Returns the input (B, H) of the output layer for scoring: without dropout and noise. Valid until the
  /// next call.
  virtual const device::Matrix& forward_for_scoring(const NetworkInput& batch) = 0;
  /// Returns the layer of output_parameters() that computes the scores from the activations of
  /// forward_for_scoring().
  virtual device::Layer output_layer() const = 0;
  /// Returns the parameters that contain the output layer. Those of a model which computes this layer from
  /// its weights belong to no checkpoint.
  virtual device::Parameters& output_parameters() { return parameters_; }
  /// Returns the index of the tensor in tensors() whose rows or columns are the vectors of items that
  /// similarities() compares.
  virtual int item_tensor() const { return output_layer().weight; }

  /// Returns the score of an item, given the output layer's result for it.
  virtual float score_of(float logit) const { return logit; }
  /// Returns forward_for_scoring() for users `rows`, row-major, of own_users(): (own users, H). Blocks.
  std::vector<float> scoring_input(LoadedUsers& users, Range rows);

  /// Returns the indices of the tensors that forward_backward() updates immediately in fused updates: the
  /// tensors of items. None: it does not fuse updates.
  virtual std::vector<int> fused_tensors() const { return {}; }

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return features_; }
  std::vector<device::TensorSpec> tensors() const override;
  void read_rows(int tensor, Range rows, std::span<float> values) const override;
  void write_rows(int tensor, Range rows, std::span<const float> values) override;
  void finish_writing() override;
  std::unique_ptr<LoadedUsers> load_users(const UserData& users) override;
  std::vector<std::int32_t> rank_targets(LoadedUsers& users, History history,
                                         const std::function<void(std::int64_t users)>& progressed) override;
  void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;
  std::int64_t max_users() const override { return max_rows_; }
  bool divides_items() const override { return model_parallel_.count() > 1; }
  Range own_users(std::int64_t users) const override { return model_parallel_.own_users(users); }
  void restrict_to(std::span<const std::uint8_t> allowed_items) override;
  /// The vectors are those of the output layer. If it has a bias, that is the last element of an item's
  /// vector, and 1 that of a user's. Not for a model that a model-parallel group shares.
  std::int64_t vector_width() override;
  void item_vectors(Range items, std::span<float> vectors) override;
  void user_vectors(LoadedUsers& users, Range rows, std::span<float> vectors) override;
  /// The similarities are cosines.
  void similarities(std::span<const std::int32_t> items, std::span<float> out) const override;

  /// Returns sum ||W||^2 over the tensors with weight decay: of tensors that are item slices, or of the
  /// others.
  double sum_of_squares(bool item_slices = false);

  const device::ParameterLayout& layout() const { return parameters_.layout(); }
  device::Parameters& parameters() { return parameters_; }

 protected:
  /// Makes a matrix with a row for each user of a batch that this rank carries through the layers.
  device::Matrix make_activations(std::int64_t columns);
  /// Returns the batch of features and their tensor `table`, or nullopt for a model without features. Throws
  /// std::logic_error if `batch` has features and the model has not, or the other way round.
  std::optional<device::SideFeatures> side_features(const NetworkInput& batch, int table) const;

  device::Device& device_;
  device::ModelParallelGroup& model_parallel_;
  std::int64_t items_;
  std::int64_t features_;
  std::int64_t max_rows_;
  device::Parameters parameters_;
  std::unique_ptr<device::StepState> scoring_step_;  // scoring uses no random values; its losses are not read

 private:
  /// Returns whether the output layer has a trained bias.
  bool has_output_bias() { return &output_parameters() == &parameters_; }
  /// Gathers users `rows` and returns their input. Always gathers the batch of their items.
  NetworkInput gather(DeviceUsers& users, Range rows, History history, bool needs_empty);

  std::vector<float> bias_;  // of the output layer, while items are excluded
};

}  // namespace vaecf::models
