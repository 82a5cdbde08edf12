#pragma once

#include <vaecf/device/cpu/storage.hpp>
#include <vaecf/device/device.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::cpu {

class GemmEngine;
class TileKernels;
struct PanelProduct;
struct Workspace;
using PanelKernel = void (*)(const PanelProduct&);

/// Device::export_rows() on one thread, for a thread beside those of the device.
class Exporter {
 public:
  void wait_event(device::EventHandle) {}
  void export_rows(const device::ParameterLayout& layout, int tensor, Range rows, const FloatBuffer& flat,
                   std::span<float> logical) const;
};

/// The CPU device. OpenMP parallelizes over rows or item tiles; each thread computes its products with
/// single-threaded oneDNN. The output table is stored item-major, (I, K), so that a tile of transposed logits
/// has users across the SIMD lanes. In bf16, all products have bf16 operands and fp32 sums; everything else
/// is fp32, including the input layer's gather and the master weights. See the concept device::Device for the
/// operations.
class Device {
 public:
  using Buffer = FloatBuffer;
  using Bf16Buffer = cpu::Bf16Buffer;
  using Parameters = cpu::Parameters;
  using Activations = cpu::Activations;
  using UserRows = cpu::UserRows;
  using BatchSchedule = cpu::BatchSchedule;
  using Batch = cpu::Batch;
  using StepState = cpu::StepState;
  using MetricValues = cpu::MetricValues;
  using Graph = cpu::Graph;
  using DeviceTimer = cpu::DeviceTimer;
  using Exporter = cpu::Exporter;
  static constexpr std::int64_t evaluation_batch = 500;

  /// Uses `tiles` (bf16) or `panels` (fp32) as kernels of the output layer; null: oneDNN or, with `portable`,
  /// plain loops.
  Device(int threads, device::Precision precision, bool portable,
         std::shared_ptr<const TileKernels> tiles = nullptr, PanelKernel panels = nullptr);
  ~Device();

  std::string description() const;
  std::string device() const { return "cpu"; }
  std::string device_id() const { return ""; }
  device::Precision precision() const { return precision_; }
  int threads() const { return threads_; }
  std::int64_t peak_device_bytes() const { return 0; }
  double measure_gemm_rate(std::int64_t max_bytes);
  double measure_memory_rate(std::int64_t max_bytes);

  device::ParameterLayout plan_parameters(std::span<const device::TensorSpec> tensors) const;
  std::unique_ptr<Parameters> make_parameters(const device::ParameterLayout& layout,
                                              std::int64_t min_size = 0) {
    return std::make_unique<Parameters>(layout, min_size, bf16());
  }
  std::unique_ptr<Buffer> make_buffer(std::int64_t size) { return std::make_unique<Buffer>(size); }
  std::unique_ptr<Bf16Buffer> make_bf16_buffer(std::int64_t size) {
    return std::make_unique<Bf16Buffer>(size);
  }
  std::unique_ptr<Activations> make_activations(std::int64_t max_rows, std::int64_t columns) {
    return std::make_unique<Activations>(max_rows, columns);
  }
  std::unique_ptr<Batch> make_batch() { return std::make_unique<Batch>(); }
  std::unique_ptr<UserRows> make_user_rows(SlicedRows rows, std::int64_t first_user, std::int64_t items,
                                           device::ItemSlices& slices = device::one_slice()) {
    return std::make_unique<UserRows>(rows, first_user, items, slices);
  }
  std::unique_ptr<BatchSchedule> make_batch_schedule() { return std::make_unique<BatchSchedule>(); }
  std::unique_ptr<StepState> make_step_state() { return std::make_unique<StepState>(); }
  std::unique_ptr<MetricValues> make_metric_values(std::size_t metrics, std::int64_t users) {
    return std::make_unique<MetricValues>(metrics, users);
  }
  std::unique_ptr<DeviceTimer> make_timer() { return std::make_unique<DeviceTimer>(); }
  void fill(Buffer& buffer, float value);
  void cast_to_bf16(const Buffer& from, Range range, Bf16Buffer& to, std::int64_t at);
  void cast_to_fp32(const Bf16Buffer& from, Range range, Buffer& to, std::int64_t at);
  void copy(const Buffer& from, Range range, Buffer& to, std::int64_t at);
  void import_rows(const device::ParameterLayout& layout, int tensor, Range rows,
                   std::span<const float> logical, Buffer& flat);
  void export_rows(const device::ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                   std::span<float> logical) const;
  std::unique_ptr<Exporter> make_exporter() { return std::make_unique<Exporter>(); }
  std::int64_t spare_bytes() const;
  void refresh_weight_copies(Parameters& parameters) {
    refresh_weight_copies(parameters, {0, parameters.layout().size});
  }
  void refresh_weight_copies(Parameters& parameters, Range range);

  // Operations have finished when they return, and graphs are not supported.
  void synchronize() {}
  device::EventHandle record_event() { return {}; }
  void wait_event(device::EventHandle) {}
  std::unique_ptr<Graph> capture(const std::function<void()>& work) { return work(), nullptr; }
  bool is_valid(const Graph&) const { return false; }
  bool replay(Graph&) { return false; }

  void begin_step(const device::StepParams& params, StepState& step);
  void accumulate_gradient_stats(const Buffer& gradients, Range range, StepState& step);
  Buffer& gradient_stats(StepState& step) { return step.gradient_stats; }
  void end_step(StepState& step);
  void clear_losses(StepState& step) { step.sums = {}; }
  void set_losses(const device::LossSums& sums, StepState& step) { step.sums = sums.without_nonfinite(); }
  device::LossSums read_losses(StepState& step) { return step.sums; }
  std::optional<device::LossSums> poll_losses(StepState& step) { return step.sums; }
  device::LossScale loss_scale(StepState&) { return {1.0F, 0}; }
  void set_loss_scale(device::LossScale, StepState&) {}

  void upload_batch_schedule(const UserRows&, std::span<const std::int64_t> rows,
                             std::span<const std::int64_t> begin, BatchSchedule& schedule) {
    schedule.set_next(rows, begin);
  }
  void start_batch_schedule(const UserRows&, BatchSchedule& schedule) { schedule.start_next(); }
  void gather_scheduled_batch(const UserRows& source, const BatchSchedule& schedule, const StepState& step,
                              std::int64_t users, Batch& batch);
  void gather_batch(const UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                    Batch& batch);

  void sparse_linear(const Batch& batch, const Parameters& parameters, device::Layer layer,
                     device::Activation act, device::InputDropout input_dropout, const StepState& step,
                     Activations& output, const SideFeatures* side = nullptr);
  void linear(const Activations& input, const Parameters& parameters, device::Layer layer,
              device::Activation act, Activations& output);
  void sample_latent(const Batch& batch, const Activations& statistics, const StepState& step,
                     Activations& z);
  void linear_and_sample(const Activations& input, const Parameters& parameters, device::Layer layer,
                         const Batch& batch, const StepState& step, Activations& statistics, Activations& z) {
    linear(input, parameters, layer, device::Activation::identity, statistics);
    sample_latent(batch, statistics, step, z);
  }
  void latent_mean(const Activations& statistics, Activations& z);
  void swish_norm(Activations& s, const Parameters& parameters, device::Norm norm, bool first,
                  Activations& sum, Activations& h);

  void softmax_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                          device::Layer layer, StepState& step, Activations& d_hidden, Buffer& gradients,
                          const device::GradientReady& ready, const FusedUpdate* fused = nullptr,
                          device::SoftmaxGradients which = device::SoftmaxGradients::both);
  void squared_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                          device::Layer layer, StepState& step, Activations& d_hidden, Buffer& gradients,
                          const device::GradientReady& ready, const FusedUpdate* fused = nullptr);
  bool fuses_updates() const { return true; }
  bool stores_fused_gradient(device::TensorKind) const { return false; }
  void linear_backward(const Activations& input, const Parameters& parameters, device::Layer layer,
                       device::Activation act, const Activations& output, Activations& d_output,
                       Activations* d_input, Buffer& gradients, const device::GradientReady& ready,
                       const Activations* added_to_input = nullptr);
  void latent_backward(const Batch& batch, const Activations& statistics, StepState& step,
                       const Activations& d_z, Activations& d_statistics);
  void composite_latent_backward(const Batch& batch, const Activations& statistics,
                                 const Activations& old_statistics, const math::CompositePrior& prior,
                                 float gamma, StepState& step, const Activations& d_z,
                                 Activations& d_statistics);
  void swish_norm_backward(Activations& s, const Parameters& parameters, device::Norm norm, bool first,
                           Activations& d_h, Activations& sum, Buffer& gradients,
                           const device::GradientReady& ready);
  void sparse_linear_backward(const Batch& batch, const device::ParameterLayout& layout, device::Layer layer,
                              device::Activation act, device::InputDropout input_dropout,
                              const StepState& step, const Activations& output, Activations& d_output,
                              Buffer& gradients, const device::GradientReady& ready,
                              const FusedUpdate* fused = nullptr);
  void side_features_backward(const SideFeatures& side, const device::ParameterLayout& layout,
                              const Activations& d_before, Buffer& gradients,
                              const device::GradientReady& ready);

  void normalize_rows(const Parameters& parameters, int tensor, Parameters& normalized, int table);
  void table_gram(const Parameters& normalized, int table, Activations& gram);
  void cosine_step(const Activations& hidden, const Batch& batch, const Activations& gram, StepState& step,
                   Activations& d_hidden, Activations& d_gram);
  void normalize_rows_backward(const Parameters& parameters, int tensor, const Parameters& normalized,
                               int table, const Activations& d_gram, Buffer& gradients,
                               const device::GradientReady& ready);

  void update(const StepState& step, bool decays, Range range, const Buffer& gradients, Moments moments,
              Parameters& parameters);
  double sum_of_squares(const Parameters& parameters, int tensor);

  void rank_targets(const Activations& hidden, const Batch& batch, CsrView targets,
                    const Parameters& parameters, device::Layer layer, std::span<std::int32_t> ranks);
  void compute_metrics(const Activations& hidden, const Batch& batch, const UserRows& targets, Range rows,
                       const Parameters& parameters, device::Layer layer,
                       std::span<const math::Metric> metrics, MetricValues& values);
  std::vector<double> read_metrics(MetricValues& values) { return values.values; }
  void top_k(const Activations& hidden, const Batch& batch, const Parameters& parameters, device::Layer layer,
             int k, std::span<std::int32_t> items, std::span<float> scores);

  void write_activations(Activations& to, std::int64_t rows, std::span<const float> values);
  void read_activations(const Activations& from, std::span<float> values) const;

 private:
  bool bf16() const { return precision_ == device::Precision::bf16; }
  /// Returns the fastest available implementation of the output layer for the users of `slice`.
  std::unique_ptr<class LossSlice> softmax_slice(const class OutputSlice& slice);
  /// Runs the output layer with the loss of the slices that `make_slice` makes for some of the users, given
  /// the hidden units of all users.
  void output_layer_step(
      const std::function<std::unique_ptr<LossSlice>(const float* hidden, Range users)>& make_slice,
      const Activations& hidden, const Batch& batch, const Parameters& parameters, device::Layer layer,
      StepState& step, Activations& d_hidden, Buffer& gradients, const device::GradientReady& ready,
      const FusedUpdate* fused, device::SoftmaxGradients which);
  /// Calls use(user, scores) for each user of the batch, from any thread, with the scores of the items of
  /// this rank's slice. The user's own items have the score minus infinity. Scores of several users are in
  /// memory at the same time; they are valid until after(users) returns, which is called once for these
  /// users. Collective.
  void for_scores(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                  device::Layer layer, const std::function<void(std::int64_t, std::span<const float>)>& use,
                  const std::function<void(Range users)>& after = {});
  /// Returns `values` as a product operand: `values` itself or, in bf16, a copy written to `copy`.
  const void* operand(const float* values, std::int64_t n, AlignedArray<std::uint16_t>& copy);
  /// Returns output or item table `tensor` as a product operand, item-major.
  const void* table_operand(const Parameters& parameters, int tensor) const {
    if (bf16()) return parameters.bf16_copy().data();
    return parameters.weights(tensor);
  }
  /// Returns the address of element `index` of `operand`.
  const void* element(const void* operand, std::int64_t index) const;
  /// Writes dbias = column sums of d (B, N), each column by one thread.
  void column_sums(const Activations& d, float* to);

  int threads_;
  device::Precision precision_;
  bool portable_;
  std::shared_ptr<const TileKernels> tiles_;
  PanelKernel panels_;
  std::vector<std::unique_ptr<GemmEngine>> engines_;  // one per thread
  std::unique_ptr<Workspace> workspace_;
};

/// Makes a CPU device from `options`. Throws InputError if no CPU supports the precision; the message
/// includes `why_no_gpu`.
std::unique_ptr<Device> make_device(const device::BackendOptions& options,
                                    const std::string& why_no_gpu = "");

/// The number of items is padded to whole tiles in storage, so that every product of the output layer has the
/// same shape.
constexpr std::int64_t tile_items = 128;
/// Returns the number of users that are processed together, a multiple of 32 and at most `most`: fewer if a
/// value of 4 bytes for each user and item of a slice would take more than `max_bytes`. All ranks of a group
/// have the same number.
constexpr std::int64_t bounded_users(const ItemSlice& items, std::int64_t most, std::int64_t max_bytes) {
  const std::int64_t of_slice = (items.all + items.step - 1) / items.step;
  return std::clamp<std::int64_t>(max_bytes / (4 * std::max<std::int64_t>(of_slice, 1)) / 32 * 32, 32, most);
}
/// Returns the maximum number of users in a slice of the output layer: larger batches are split, so that the
/// data of a tile fit into the L2 cache, and the exponentials into 256 MiB.
constexpr std::int64_t slice_users(const ItemSlice& items) {
  return bounded_users(items, 512, std::int64_t{256} << 20);
}
/// Returns the maximum number of users whose scores are stored at the same time: 256 rows of ML-20M's items
/// take 20 MB.
constexpr std::int64_t scored_users(const ItemSlice& items) {
  return bounded_users(items, 256, std::int64_t{128} << 20);
}

}  // namespace vaecf::cpu
