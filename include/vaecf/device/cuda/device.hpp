#pragma once

#include <vaecf/device/cpu/spd_inverse.hpp>
#include <vaecf/device/cuda/item_matrix.hpp>
#include <vaecf/device/cuda/products.hpp>
#include <vaecf/device/cuda/storage.hpp>
#include <vaecf/device/device.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::cuda {

/// Device::export_rows() on a stream of its own, for a thread beside that of the device. Only its first use
/// allocates.
class Exporter {
 public:
  explicit Exporter(Gpu& gpu) : gpu_(gpu) {}
  void wait_event(device::EventHandle done) { stream_.wait_event(done.event); }
  void export_rows(const device::ParameterLayout& layout, int tensor, Range rows, const FloatBuffer& flat,
                   std::span<float> logical);

 private:
  Gpu& gpu_;
  Stream stream_;
  PinnedArray<float> staging_;
};

class Exchange;
class Scorer;

/// Rows of a gradient, one per user of a group: fp32 values or their 16-bit copies.
struct GradientRows {
  const void* rows;  // (users, stride)
  DType dtype;
  std::int64_t users;
  std::int64_t stride;
};

/// The device for NVIDIA GPUs. All work of a step is queued on one stream, except that of run_beside(),
/// without blocking the host. In bf16 and fp16, products have 16-bit operands and fp32 sums; master weights,
/// gradients, moments and other values are fp32; in bf16x3, only products differ from fp32 (see Products).
/// Tensors are stored in their logical orientation. Rows are padded to 16 bytes, items to a multiple of 256
/// for aligned logit rows and whole tiles. See the concept device::Device for the operations.
class Device {
 public:
  using Buffer = FloatBuffer;
  using Bf16Buffer = cuda::Bf16Buffer;
  using Parameters = cuda::Parameters;
  using Activations = cuda::Activations;
  using UserRows = cuda::UserRows;
  using BatchSchedule = cuda::BatchSchedule;
  using Batch = cuda::Batch;
  using StepState = cuda::StepState;
  using MetricValues = cuda::MetricValues;
  using ItemMatrix = cuda::ItemMatrix;
  using Graph = cuda::Graph;
  using DeviceTimer = cuda::DeviceTimer;
  using Exporter = cuda::Exporter;
  /// At smaller batches, launches and the users with the longest rows take most of the time.
  static constexpr std::int64_t evaluation_batch = 4096;

  /// Uses GPU `index` of those visible to this process.
  Device(const device::BackendOptions& options, int index);

  std::string description() const;
  std::string device() const;
  device::Precision precision() const;
  int threads() const;
  std::string device_id() const;
  device::ParameterLayout plan_parameters(std::span<const device::TensorSpec> tensors) const;
  std::unique_ptr<Parameters> make_parameters(const device::ParameterLayout& layout,
                                              std::int64_t min_size = 0);
  std::unique_ptr<FloatBuffer> make_buffer(std::int64_t size);
  std::unique_ptr<Bf16Buffer> make_bf16_buffer(std::int64_t size);
  std::unique_ptr<Activations> make_activations(std::int64_t max_rows, std::int64_t columns);
  std::unique_ptr<Batch> make_batch();
  std::unique_ptr<UserRows> make_user_rows(SlicedRows rows, std::int64_t first_user, std::int64_t items,
                                           device::ItemSlices& slices = device::one_slice());
  void fill(FloatBuffer& buffer, float value);
  void synchronize();
  device::EventHandle record_event();
  void wait_event(device::EventHandle done);
  void import_rows(const device::ParameterLayout& layout, int tensor, Range rows,
                   std::span<const float> logical, FloatBuffer& flat);
  void export_rows(const device::ParameterLayout& layout, int tensor, Range rows, const FloatBuffer& flat,
                   std::span<float> logical) const;
  std::unique_ptr<Exporter> make_exporter();
  std::int64_t spare_bytes() const;
  void refresh_weight_copies(Parameters& parameters);
  void refresh_weight_copies(Parameters& parameters, Range range);
  void cast_to_bf16(const FloatBuffer& from, Range range, Bf16Buffer& to, std::int64_t at);
  void cast_to_fp32(const Bf16Buffer& from, Range range, FloatBuffer& to, std::int64_t at);
  void copy(const FloatBuffer& from, Range range, FloatBuffer& to, std::int64_t at);
  void write_activations(Activations& to, std::int64_t rows, std::span<const float> values);
  void read_activations(const Activations& from, std::span<float> values) const;
  std::unique_ptr<StepState> make_step_state();
  void begin_step(const device::StepParams& params, StepState& step);
  void accumulate_gradient_stats(const FloatBuffer& gradients, Range range, StepState& step);
  FloatBuffer& gradient_stats(StepState& step);
  void end_step(StepState& step);
  void clear_losses(StepState& step);
  void set_losses(const device::LossSums& sums, StepState& step);
  device::LossSums read_losses(StepState& step);
  std::optional<device::LossSums> poll_losses(StepState& step);
  device::LossScale loss_scale(StepState& step);
  void set_loss_scale(device::LossScale scale, StepState& step);
  std::unique_ptr<Graph> capture(const std::function<void()>& work);
  bool is_valid(const Graph& graph) const;
  bool replay(Graph& graph);
  std::unique_ptr<BatchSchedule> make_batch_schedule();
  void upload_batch_schedule(const UserRows& source, std::span<const std::int64_t> rows,
                             std::span<const std::int64_t> begin, BatchSchedule& schedule);
  void start_batch_schedule(const UserRows& source, BatchSchedule& schedule);
  void gather_scheduled_batch(const UserRows& source, const BatchSchedule& schedule, const StepState& step,
                              std::int64_t users, Batch& batch);
  void gather_batch(const UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                    Batch& batch);
  void sparse_linear(const Batch& batch, const Parameters& parameters, device::Layer layer,
                     device::Activation act, device::InputDropout input_dropout, const StepState& step,
                     Activations& output, const SideFeatures* side = nullptr);
  void linear(const Activations& input, const Parameters& parameters, device::Layer layer,
              device::Activation act, Activations& output);
  void linear_and_sample(const Activations& input, const Parameters& parameters, device::Layer layer,
                         const Batch& batch, const StepState& step, Activations& statistics, Activations& z);
  void sample_latent(const Batch& batch, const Activations& statistics, const StepState& step,
                     Activations& z);
  void latent_mean(const Activations& statistics, Activations& z);
  void swish_norm(Activations& s, const Parameters& parameters, device::Norm norm, bool first,
                  Activations& sum, Activations& h);
  void softmax_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                          device::Layer layer, StepState& step, Activations& d_hidden, FloatBuffer& gradients,
                          const device::GradientReady& ready, const FusedUpdate* fused = nullptr,
                          device::SoftmaxGradients which = device::SoftmaxGradients::both);
  void squared_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                          device::Layer layer, StepState& step, Activations& d_hidden, FloatBuffer& gradients,
                          const device::GradientReady& ready, const FusedUpdate* fused = nullptr);
  bool fuses_updates() const;
  bool stores_fused_gradient(device::TensorKind kind) const;
  void linear_backward(const Activations& input, const Parameters& parameters, device::Layer layer,
                       device::Activation act, const Activations& output, Activations& d_output,
                       Activations* d_input, FloatBuffer& gradients, const device::GradientReady& ready,
                       const Activations* added_to_input = nullptr);
  void latent_backward(const Batch& batch, const Activations& statistics, StepState& step,
                       const Activations& d_z, Activations& d_statistics);
  void composite_latent_backward(const Batch& batch, const Activations& statistics,
                                 const Activations& old_statistics, const math::CompositePrior& prior,
                                 float gamma, StepState& step, const Activations& d_z,
                                 Activations& d_statistics);
  void swish_norm_backward(Activations& s, const Parameters& parameters, device::Norm norm, bool first,
                           Activations& d_h, Activations& sum, FloatBuffer& gradients,
                           const device::GradientReady& ready);
  void sparse_linear_backward(const Batch& batch, const device::ParameterLayout& layout, device::Layer layer,
                              device::Activation act, device::InputDropout input_dropout,
                              const StepState& step, const Activations& output, Activations& d_output,
                              FloatBuffer& gradients, const device::GradientReady& ready,
                              const FusedUpdate* fused = nullptr);
  void side_features_backward(const SideFeatures& side, const device::ParameterLayout& layout,
                              const Activations& d_before, FloatBuffer& gradients,
                              const device::GradientReady& ready);
  void normalize_rows(const Parameters& parameters, int tensor, Parameters& normalized, int table);
  void table_gram(const Parameters& normalized, int table, Activations& gram);
  void cosine_step(const Activations& hidden, const Batch& batch, const Activations& gram, StepState& step,
                   Activations& d_hidden, Activations& d_gram);
  void normalize_rows_backward(const Parameters& parameters, int tensor, const Parameters& normalized,
                               int table, const Activations& d_gram, FloatBuffer& gradients,
                               const device::GradientReady& ready);
  void update(const StepState& step, bool decays, Range range, const FloatBuffer& gradients, Moments moments,
              Parameters& parameters);
  void update_all(const StepState& step, std::span<const device::UpdateRange> ranges,
                  const FloatBuffer& gradients, Moments moments, Parameters& parameters);
  double sum_of_squares(const Parameters& parameters, int tensor);
  void rank_targets(const Activations& hidden, const Batch& batch, CsrView targets,
                    const Parameters& parameters, device::Layer layer, std::span<std::int32_t> ranks);
  std::unique_ptr<MetricValues> make_metric_values(std::size_t metrics, std::int64_t users);
  void compute_metrics(const Activations& hidden, const Batch& batch, const UserRows& targets, Range rows,
                       const Parameters& parameters, device::Layer layer,
                       std::span<const math::Metric> metrics, MetricValues& values);
  std::vector<double> read_metrics(MetricValues& values);
  void top_k(const Activations& hidden, const Batch& batch, const Parameters& parameters, device::Layer layer,
             int k, std::span<std::int32_t> items, std::span<float> scores);
  /// Makes a matrix B (items, items) of the rows that `read_rows(begin, end, out)` writes, row-major. Returns
  /// null if it does not fit into the memory.
  std::unique_ptr<ItemMatrix> make_item_matrix(
      std::int64_t items,
      const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows);
  /// Gives these items the score -infinity from now on.
  void exclude_items(ItemMatrix& matrix, std::span<const std::int32_t> items);
  /// Computes the scores x B of the users of `batch`, at most matrix.max_users, who have `entries` items.
  void score_items(const Batch& batch, std::int64_t entries, ItemMatrix& matrix);
  /// These are compute_metrics() and top_k() with the scores of the last score_items() of as many users.
  void compute_metrics(const ItemMatrix& matrix, const Batch& batch, const UserRows& targets, Range rows,
                       std::span<const math::Metric> metrics, MetricValues& values);
  void top_k(const ItemMatrix& matrix, const Batch& batch, int k, std::span<std::int32_t> items,
             std::span<float> scores);
  /// Returns whether the memory suffices for invert().
  bool has_memory_to_invert(const cpu::SpdInverse& matrix, const cpu::Interactions& x) const;
  /// Adds X' diag(w) X without its diagonal to `matrix` and inverts it as its member function does, with this
  /// rank's rows in device memory, fp32 products and pivot blocks inverted on the host. The pivot rows are
  /// broadcast through host memory. The result does not depend on the number of ranks.
  cpu::Inversion invert(cpu::SpdInverse& matrix, const cpu::Interactions& x,
                        const cpu::SpdInverse::Broadcast& broadcast,
                        const cpu::SpdInverse::Progress& progress);
  double measure_gemm_rate(std::int64_t max_bytes);
  double measure_memory_rate(std::int64_t max_bytes);
  std::unique_ptr<DeviceTimer> make_timer();
  std::int64_t peak_device_bytes() const;

 private:
  using MakeScorer = std::function<Scorer(Exchange&)>;
  void rank_and_measure(const MakeScorer& make_scorer, const Batch& batch, const UserRows& targets,
                        Range rows, std::span<const math::Metric> metrics, MetricValues& values);
  void sort_scores(const MakeScorer& make_scorer, const Batch& batch, int k, std::span<std::int32_t> items,
                   std::span<float> scores);
  DType dtype() const;  ///< data type of product operands
  bool half_precision() const { return dtype() != DType::fp32; }
  /// Returns memory for a loss term of `users` users, which end_step() will add to the step's losses.
  double* user_losses(std::int64_t users, UserLosses& losses, StepState& step);
  /// Adds losses that are left to end_step() at once.
  void add_losses(StepState& step);
  /// Computes input W without bias.
  void layer_product(const Activations& input, const Parameters& parameters, device::Layer layer,
                     Activations& output);
  void output_layer_step(device::Loss loss, const Activations& hidden, const Batch& batch,
                         const Parameters& parameters, device::Layer layer, StepState& step,
                         Activations& d_hidden, FloatBuffer& gradients, const device::GradientReady& ready,
                         const FusedUpdate* fused, device::SoftmaxGradients which);
  /// Computes the gradient of table `table`, whose rows the users of `b` have summed, from the gradient `d`
  /// of those sums. Applies the dropout of `step`; null: no dropout. With `fused`, updates the table instead.
  void table_gradient(const Batch& b, const device::TensorLayout& table, device::InputDropout input_dropout,
                      const StepState* step, const GradientRows& d, FloatBuffer& gradients,
                      const device::GradientReady& ready, const FusedUpdate* fused = nullptr);
  /// Throws std::logic_error, naming `operation`, if the update of `step` cannot be fused.
  void require_fusible(const char* operation, const StepState& step) const;
  /// Updates `ranges` on the side stream.
  void update_beside(const StepState& step, std::span<const device::UpdateRange> ranges,
                     const FloatBuffer& gradients, const FusedUpdate& fused);
  /// Work on the side stream, and whether stream_ has not waited for its end yet.
  struct SideWork {
    Event done;
    bool pending = false;
  };
  /// Queues `work` on the side stream, after all work so far. join() makes later work wait for its end.
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
  SideWork sort_;    // the transpose of a scheduled batch
  SideWork update_;  // the output layer
  AllocationEpoch allocation_epoch_;
  Scratch scratch_;
  Primitives primitives_;
  Products matmuls_;
  mutable PinnedArray<float> staging_;
  std::vector<Event> marks_;  // ring of events for mark()
  std::size_t next_mark_ = 0;
  std::vector<Event> begun_;  // ring of events at the start of recent steps
  std::size_t next_begun_ = 0;
};

/// Makes the device on the GPU that `options` assign to this rank. Throws InputError if no GPU can be used;
/// the message names the cause.
std::unique_ptr<Device> make_device(const device::BackendOptions& options);

}  // namespace vaecf::cuda
