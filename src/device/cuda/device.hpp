#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/device/gram_input.hpp>
#include <vaecf/device/spd_inverse.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/cuda/allocation.hpp"
#include "device/cuda/batch.hpp"
#include "device/cuda/device_objects.hpp"
#include "device/cuda/matrix.hpp"
#include "device/cuda/platform/primitives.hpp"
#include "device/cuda/scratch.hpp"
#include "device/cuda/shared_names.hpp"
#include "device/cuda/split_matmuls.hpp"
#include "device/cuda/step_state.hpp"
#include "device/cuda/user_rows.hpp"

namespace vaecf::cuda {

/// Its own stream lets another thread use it beside the device's. Only its first use allocates.
class Exporter final : public device::Exporter {
 public:
  explicit Exporter(Gpu& gpu) : gpu_(gpu) {}
  void wait_event(EventHandle done) override { stream_.wait_event(done.event); }
  void export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                   std::span<float> logical) override;

 private:
  Gpu& gpu_;
  Stream stream_;
  PinnedArray<float> staging_;
};

class Exchange;
class Scorer;

/// Rows of a gradient, one per user of a model-parallel group: fp32 values or their 16-bit copies.
struct GradientRows {
  const void* rows;  // (users, stride)
  DType dtype;
  std::int64_t users;
  std::int64_t stride;
};

/// Partial sums (partials, 8 vecs) of 8 `vecs` columns, to be added to `sums`.
struct ColumnSums {
  const float* partial;
  std::int64_t partials;
  std::int64_t vecs;
  float* sums;
};

/// The device for NVIDIA GPUs. All work of a step is queued on one stream, except that of run_beside(),
/// without blocking the host. In bf16 and fp16, products have 16-bit operands and fp32 sums; master weights,
/// gradients, moments and other values are fp32; in bf16x3, only products differ from fp32 (see
/// SplitMatmuls). Tensors are stored in their logical orientation. Rows are padded to 16 bytes, items to a
/// multiple of 256 for aligned logit rows and whole tiles.
class Device : public device::Device, public device::Solver {
 public:
  /// Uses GPU `index` of those visible to this process.
  Device(const device::BackendOptions& options, int index);

  /// See device::Device and device::Solver.
  device::DeviceFacts facts() const override;
  double measure(device::Rate rate, std::int64_t max_bytes) override;
  std::int64_t output_bytes(ItemSlice, std::int64_t) const override { return 0; }
  ParameterLayout plan_parameters(std::span<const TensorSpec> tensors) const override;
  Parameters make_parameters(const ParameterLayout& layout, std::int64_t min_size) override;
  Buffer make_buffer(std::int64_t size) override {
    return Buffer(DeviceArray<float>(gpu_, size, "gradients and moments"));
  }
  Bf16Buffer make_bf16_buffer(std::int64_t size) override {
    return Bf16Buffer(DeviceArray<Bf16>(gpu_, size, "bf16 communication buffers"));
  }
  Matrix make_matrix(std::int64_t max_rows, std::int64_t columns) override {
    return cuda::make_matrix(gpu_, max_rows, columns, dtype());
  }
  std::int64_t spare_bytes() const override;
  std::unique_ptr<device::UserRows> make_user_rows(ItemSliceView rows, std::int64_t first_user,
                                                   std::int64_t columns,
                                                   ModelParallelGroup& model_parallel) override;
  std::unique_ptr<device::BatchSchedule> make_batch_schedule() override {
    return std::make_unique<BatchSchedule>();
  }
  std::unique_ptr<device::Batch> make_batch() override {
    return std::make_unique<Batch>(gpu_, allocation_epoch_);
  }
  std::unique_ptr<device::StepState> make_step_state() override;
  std::unique_ptr<device::TargetRanks> make_target_ranks(std::int64_t targets) override;
  std::unique_ptr<device::Timer> make_timer() override { return std::make_unique<Timer>(stream_); }
  std::unique_ptr<device::Exporter> make_exporter() override { return std::make_unique<Exporter>(gpu_); }
  void fill(Buffer& buffer, float value) override;
  void copy(const Buffer& from, Range range, Buffer& to, std::int64_t at) override;
  void cast_to_bf16(const Buffer& from, Range range, Bf16Buffer& to, std::int64_t at) override;
  void cast_to_fp32(const Bf16Buffer& from, Range range, Buffer& to, std::int64_t at) override;
  void refresh_copies(Parameters& parameters, Range range) override;
  void import_rows(const ParameterLayout& layout, int tensor, Range rows, std::span<const float> logical,
                   Buffer& flat) override;
  void export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                   std::span<float> logical) const override;
  void write_matrix(Matrix& to, std::int64_t rows, std::span<const float> values) override;
  void read_matrix(const Matrix& from, std::span<float> values) const override;
  void synchronize() override;
  EventHandle record_event() override;
  void wait_event(EventHandle done) override { stream_.wait_event(done.event); }
  std::unique_ptr<device::Graph> capture(const std::function<void()>& work) override;
  bool is_valid(const device::Graph& graph) const override {
    return own<Graph>(graph).allocation_epoch == allocation_epoch_.value;
  }
  [[nodiscard]] bool replay(device::Graph& graph) override;
  void begin_step(const device::StepParams& params, device::StepState& step) override;
  void accumulate_gradient_stats(const Buffer& gradients, Range range, device::StepState& step) override;
  Buffer& gradient_stats(device::StepState& step) override { return own<StepState>(step).gradient_stats; }
  void end_step(device::StepState& step) override;
  device::StepSums sums(device::StepState& step) override;
  std::optional<LossSums> poll_losses(device::StepState& step) override;
  void set_losses(const LossSums& losses, device::StepState& step) override;
  void set_loss_scale(LossScale scale, device::StepState& step) override;
  void upload_batch_schedule(const device::UserRows& source, std::span<const std::int64_t> rows,
                             std::span<const std::int64_t> begin, device::BatchSchedule& schedule) override;
  void start_batch_schedule(const device::UserRows& source, device::BatchSchedule& schedule) override;
  void gather_scheduled_batch(const device::UserRows& source, const device::BatchSchedule& schedule,
                              const device::StepState& step, std::int64_t users,
                              device::Batch& batch) override;
  void gather_batch(const device::UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                    device::Batch& batch) override;
  void sparse_linear(const device::Batch& batch, const Parameters& parameters, Layer layer, Activation act,
                     InputScaling scaling, const device::StepState& step, const SideFeatures* side,
                     Matrix& output) override;
  void update_unused_rows(const device::Batch& batch, Layer layer, InputScaling scaling,
                          const Backward& backward) override;
  void linear(const Matrix& input, const Parameters& parameters, Layer layer, Activation act,
              Matrix& output) override;
  void sample_latent(const device::Batch& batch, const Matrix& statistics, const device::StepState& step,
                     Matrix& z) override;
  void linear_and_sample(const Matrix& input, const Parameters& parameters, Layer layer,
                         const device::Batch& batch, const device::StepState& step, Matrix& statistics,
                         Matrix& z) override;
  void latent_mean(const Matrix& statistics, Matrix& z) override;
  void swish_norm(Matrix& s, const Parameters& parameters, Norm norm, bool first, Matrix& sum,
                  Matrix& h) override;
  void output_layer_step(Loss loss, const Matrix& hidden, const device::Batch& batch, Layer layer,
                         OutputGradients which, Matrix& d_hidden, const Backward& backward) override;
  void linear_backward(const Matrix& input, Layer layer, Activation act, const Matrix& output,
                       Matrix& d_output, Matrix* d_input, const Matrix* added_to_input,
                       const Backward& backward) override;
  void latent_backward(const device::Batch& batch, const Matrix& statistics, const Matrix& d_z,
                       Matrix& d_statistics, device::StepState& step) override;
  void composite_latent_backward(const device::Batch& batch, const Matrix& statistics,
                                 const Matrix& old_statistics, const math::CompositePrior& prior, float gamma,
                                 const Matrix& d_z, Matrix& d_statistics, device::StepState& step) override;
  void swish_norm_backward(Matrix& s, Norm norm, bool first, Matrix& d_h, Matrix& sum,
                           const Backward& backward) override;
  void sparse_linear_backward(const device::Batch& batch, Layer layer, Activation act, InputScaling scaling,
                              const Matrix& output, Matrix& d_output, const Backward& backward) override;
  void side_features_backward(const SideFeatures& side, const Matrix& d_before,
                              const Backward& backward) override;
  void normalize_rows(const Parameters& parameters, int tensor, Parameters& normalized, int table) override;
  void table_gram(const Parameters& normalized, int table, Matrix& gram) override;
  void cosine_step(const Matrix& hidden, const device::Batch& batch, const Matrix& gram, Matrix& d_hidden,
                   Matrix& d_gram, device::StepState& step) override;
  void normalize_rows_backward(int tensor, const Parameters& normalized, int table, const Matrix& d_gram,
                               const Backward& backward) override;
  bool fuses_updates() const override;
  void update(std::span<const UpdateRange> ranges, const Buffer& gradients, Moments moments,
              Parameters& parameters, const device::StepState& step) override;
  double sum_of_squares(const Parameters& parameters, int tensor) override;
  void rank_targets(const Matrix& hidden, const device::Batch& batch, const device::UserRows& targets,
                    Range rows, const Parameters& parameters, Layer layer,
                    device::TargetRanks& ranks) override;
  std::vector<std::int32_t> read_ranks(device::TargetRanks& ranks) override;
  void top_k(const Matrix& hidden, const device::Batch& batch, const Parameters& parameters, Layer layer,
             int k, std::span<std::int32_t> items, std::span<float> scores) override;
  std::unique_ptr<device::ItemMatrix> make_item_matrix(
      std::int64_t items,
      const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows)
      override;
  device::Solver* solver() override { return this; }
  bool fits(const device::SpdInverse& matrix, const device::GramInput& x) const override;
  [[nodiscard]] device::Inversion invert(device::SpdInverse& matrix, const device::GramInput& x,
                                         const device::SpdInverse::Broadcast& broadcast,
                                         const device::SpdInverse::Progress& progress) override;

 private:
  friend class Exchange;
  friend class ItemMatrix;
  friend class OutputLayer;
  friend class Scorer;
  void rank_targets(Scorer& scorer, const UserRows& targets, Range rows, TargetRanks& ranks);
  void sort_scores(Scorer& scorer, int k, std::span<std::int32_t> items, std::span<float> scores);
  DType dtype() const;  ///< data type of product operands
  bool half_precision() const { return dtype() != DType::fp32; }
  /// Returns memory for a loss term of users `users` of the batch, which end_step() will add to the step's
  /// losses.
  double* user_losses(Range users, UserLosses& losses, StepState& step);
  /// Adds losses that are left to end_step() at once.
  void add_losses(StepState& step);
  /// Converts `n` values to 16-bit product operands; does nothing in fp32.
  void write_half_copies(const float* from, std::uint16_t* to, std::int64_t n);
  void update_half_copy(Matrix& activations);
  /// Computes values = act(values + bias), and the copy.
  void add_bias(const float* bias, Activation act, Matrix& output);
  /// Converts the gradient of a layer's output to that before `act` in place: the copy and, if `reads` is
  /// fp32, the values, which are undefined otherwise. The next finish_sums() writes its column sums, the
  /// gradient of the bias (d_output.stride()).
  void activation_backward(Activation act, const Matrix& output, DType reads, Matrix& d_output,
                           float* d_bias);
  /// The next finish_sums() writes the sums of the columns of `d`, (d.stride()). The order of additions
  /// depends only on the sizes.
  void column_sums(const Matrix& d, float* sums);
  /// Calls write_partials(partials, partial), which launches a kernel that writes partial sums of d's
  /// columns.
  template <class F>
  void sum_columns(const Matrix& d, float* sums, F&& write_partials);
  /// Writes all sums of columns that are open, in one launch.
  void finish_sums();
  /// Leaves them to sparse_linear_backward() if nothing needs them before it.
  void finish_sums(const Backward& backward);
  /// Calls write(rows) for ranges of a table's rows, and reports the gradient of each: at most eight ranges,
  /// each of at least 4096 rows, or all at once if backward.ready is empty.
  template <class Write>
  void write_table_gradient(const TensorLayout& table, const Backward& backward, Write&& write) {
    const std::int64_t rows = table.spec.rows;
    const std::int64_t at_once = backward.ready ? std::max<std::int64_t>(4096, (rows + 7) / 8) : rows;
    backward.write_rows(table, at_once, write, [&] { return record_event(); });
  }
  double measure_products();  ///< GFLOP/s
  double measure_copies();    ///< GB/s
  /// Computes input W without bias.
  void layer_product(const Matrix& input, const Parameters& parameters, Layer layer, Matrix& output);
  /// Computes the gradient of table `table`, whose rows the users of `b` have summed, from the gradient `d`
  /// of those sums. Applies the dropout of `step`; null: no dropout. A fused update replaces it.
  void table_gradient(const Batch& b, const TensorLayout& table, InputScaling scaling, const StepState* step,
                      const GradientRows& d, const Backward& backward);
  /// Throws std::logic_error, naming `operation`, if the update of `step` cannot be fused.
  void require_fusible(const char* operation, const StepState& step) const;
  /// Updates `ranges` on the side stream.
  void update_beside(const StepState& step, std::span<const UpdateRange> ranges, const Buffer& gradients,
                     const FusedUpdate& fused);
  /// Work on the side stream, and whether stream_ has not waited for its end yet.
  struct SideWork {
    Event done;
    bool pending = false;
  };
  /// Queues `work` on the side stream, after all work so far. join() makes later work wait for its
  /// end.
  void run_beside(SideWork& side, const std::function<void()>& work);
  void join(SideWork& side);
  void join_side_stream();

  device::BackendOptions options_;
  device::Precision precision_;
  Gpu gpu_;
  mutable Stream stream_;  // mutable: reading back streams a copy
  // Must not use scratch memory or products, which belong to stream_; only the sort uses that of primitives_.
  Stream side_stream_;
  Event forked_;
  SideWork sort_;                      // the transpose of a scheduled batch
  const Batch* sorting_ = nullptr;     // the last such batch
  SideWork unused_;                    // update_unused_rows()
  SideWork update_;                    // the output layer
  std::vector<ColumnSums> open_sums_;  // whose partial sums are written
  // The batch of update_unused_rows(), until table_gradient() has left these rows out.
  const Batch* updated_unused_ = nullptr;
  AllocationEpoch allocation_epoch_;
  Scratch scratch_;
  Primitives primitives_;
  SplitMatmuls matmuls_;
  mutable PinnedArray<float> staging_;
  std::vector<Event> marks_;  // ring of events for record_event()
  std::size_t next_mark_ = 0;
  std::vector<Event> begun_;  // ring of events at the start of recent steps
  std::size_t next_begun_ = 0;
};

/// Exchanges rows within the model-parallel group of ranks that share a batch, in the stream of `device`.
/// With one item slice, the functions use the caller's memory and exchange nothing. Memory for all users has
/// S parts of equal size; rows behind the last user are undefined. All functions are collective within the
/// model-parallel group.
class Exchange {
 public:
  Exchange(Device& device, const Batch& batch)
      : device_(device), batch_(batch), model_parallel_(batch.model_parallel()) {}

  bool alone() const { return model_parallel_.count() == 1; }
  int item_slices() const { return model_parallel_.count(); }

  /// Reserves the memory of gather(), so that nothing grows between two exchanges.
  void reserve_gather(const Matrix& own, DType dtype) { gather_memory(own, dtype); }
  /// Returns the rows of all users, given those of the own users: the values or, in 16 bits, their copy.
  const void* gather(const Matrix& own, DType dtype);

  /// Returns memory for a row of each user, to be summed by start_sum(): that of `own` if there is one item
  /// slice. Sets the rows of `own` to the own users.
  float* sums_memory(Matrix& own);
  /// Starts to sum rows of all users over the item slices; each rank receives those of its own users in
  /// `own`. The stream must wait for the event, which is null if there is one item slice.
  EventHandle start_sum(const float* all, Matrix& own);
  void sum(const float* all, Matrix& own) { device_.wait_event(start_sum(all, own)); }

  /// Reserves the memory of gather_values() for `n` values, and returns that of this rank's.
  float* values_memory(std::int64_t n);
  /// Gathers `n` values of each item slice from values_memory(): (S, n), in the order of item slices.
  const float* gather_values(std::int64_t n);
  /// Replaces `n` values by their sums over the item slices, added in the order of item slices.
  void add_over_item_slices(float* values, std::int64_t n);

 private:
  std::int64_t part_size(const Matrix& own) const;
  void* gather_memory(const Matrix& own, DType dtype);

  Device& device_;
  const Batch& batch_;
  ModelParallelGroup& model_parallel_;
};

}  // namespace vaecf::cuda
