#pragma once

#include <vaecf/device/device.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/kernels/tiles.hpp"
#include "device/cpu/storage.hpp"
#include "device/matmul_spec.hpp"

namespace vaecf::cpu {

class GemmEngine;
class TileKernels;
struct PanelProduct;
struct Workspace;
using PanelKernel = void (*)(const PanelProduct&);

/// The CPU device. OpenMP parallelizes over rows or item tiles; each thread computes its products with a
/// single-threaded GemmEngine. The output table is stored item-major, (I, K), so that a tile of transposed
/// logits has users across the SIMD lanes. In bf16, all products have bf16 operands and fp32 sums; everything
/// else is fp32, including the input layer's gather and the master weights. Matrices are stored without
/// padding.
class Device : public device::Device {
 public:
  /// Uses `tiles` (bf16) or `panels` (fp32) as kernels of the output layer; null: oneDNN or, with `portable`,
  /// plain loops.
  Device(int threads, device::Precision precision, bool portable,
         std::shared_ptr<const TileKernels> tiles = nullptr, PanelKernel panels = nullptr);
  ~Device() override;

  // See device::Device.
  device::DeviceFacts facts() const override;
  double measure(device::Rate rate, std::int64_t max_bytes) override;
  std::int64_t output_bytes(ItemSlice items, std::int64_t users) const override;

  ParameterLayout plan_parameters(std::span<const TensorSpec> tensors) const override;
  Parameters make_parameters(const ParameterLayout& layout, std::int64_t min_size) override;
  Buffer make_buffer(std::int64_t size) override { return Buffer(AlignedArray<float>(size)); }
  Bf16Buffer make_bf16_buffer(std::int64_t size) override { return Bf16Buffer(AlignedArray<Bf16>(size)); }
  Matrix make_matrix(std::int64_t max_rows, std::int64_t columns) override {
    return {columns, columns, make_buffer(max_rows * columns)};
  }
  std::int64_t spare_bytes() const override;
  std::unique_ptr<device::UserRows> make_user_rows(ItemSliceView rows, std::int64_t first_user,
                                                   std::int64_t columns,
                                                   ModelParallelGroup& model_parallel) override {
    return std::make_unique<UserRows>(rows, first_user, columns, model_parallel);
  }
  std::unique_ptr<device::BatchSchedule> make_batch_schedule() override {
    return std::make_unique<BatchSchedule>();
  }
  std::unique_ptr<device::Batch> make_batch() override { return std::make_unique<Batch>(); }
  std::unique_ptr<device::StepState> make_step_state() override { return std::make_unique<StepState>(); }
  std::unique_ptr<device::TargetRanks> make_target_ranks(std::int64_t targets) override {
    return std::make_unique<TargetRanks>(targets);
  }
  std::unique_ptr<device::Timer> make_timer() override { return std::make_unique<Timer>(); }
  std::unique_ptr<device::Exporter> make_exporter() override { return std::make_unique<Exporter>(); }
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

  void synchronize() override {}
  EventHandle record_event() override { return {}; }
  void wait_event(EventHandle) override {}
  std::unique_ptr<device::Graph> capture(const std::function<void()>& work) override {
    return work(), nullptr;
  }
  bool is_valid(const device::Graph&) const override { return false; }
  [[nodiscard]] bool replay(device::Graph&) override { return false; }

  void begin_step(const device::StepParams& params, device::StepState& step) override;
  void accumulate_gradient_stats(const Buffer& gradients, Range range, device::StepState& step) override;
  Buffer& gradient_stats(device::StepState& step) override { return own<StepState>(step).gradient_stats; }
  void end_step(device::StepState& step) override { own<StepState>(step).add_to_sums(); }
  device::StepSums sums(device::StepState& step) override { return {own<StepState>(step).sums, {1.0F, 0}}; }
  std::optional<LossSums> poll_losses(device::StepState& step) override { return own<StepState>(step).sums; }
  void set_losses(const LossSums& losses, device::StepState& step) override {
    own<StepState>(step).sums = losses.without_nonfinite();
  }
  void set_loss_scale(LossScale, device::StepState&) override {}

  void upload_batch_schedule(const device::UserRows&, std::span<const std::int64_t> rows,
                             std::span<const std::int64_t> begin, device::BatchSchedule& schedule) override {
    own<BatchSchedule>(schedule).set_next(rows, begin);
  }
  void start_batch_schedule(const device::UserRows&, device::BatchSchedule& schedule) override {
    own<BatchSchedule>(schedule).start_next();
  }
  void gather_scheduled_batch(const device::UserRows& source, const device::BatchSchedule& schedule,
                              const device::StepState& step, std::int64_t users,
                              device::Batch& batch) override;
  void gather_batch(const device::UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                    device::Batch& batch) override;

  void sparse_linear(const device::Batch& batch, const Parameters& parameters, Layer layer, Activation act,
                     InputScaling scaling, const device::StepState& step, const SideFeatures* side,
                     Matrix& output) override;
  void linear(const Matrix& input, const Parameters& parameters, Layer layer, Activation act,
              Matrix& output) override;
  void sample_latent(const device::Batch& batch, const Matrix& statistics, const device::StepState& step,
                     Matrix& z) override;
  void linear_and_sample(const Matrix& input, const Parameters& parameters, Layer layer,
                         const device::Batch& batch, const device::StepState& step, Matrix& statistics,
                         Matrix& z) override {
    linear(input, parameters, layer, Activation::identity, statistics);
    sample_latent(batch, statistics, step, z);
  }
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

  bool fuses_updates() const override { return true; }
  void update(std::span<const UpdateRange> ranges, const Buffer& gradients, Moments moments,
              Parameters& parameters, const device::StepState& step) override;
  double sum_of_squares(const Parameters& parameters, int tensor) override;

  void rank_targets(const Matrix& hidden, const device::Batch& batch, const device::UserRows& targets,
                    Range rows, const Parameters& parameters, Layer layer,
                    device::TargetRanks& ranks) override;
  std::vector<std::int32_t> read_ranks(device::TargetRanks& ranks) override {
    return own<TargetRanks>(ranks).values;
  }
  void top_k(const Matrix& hidden, const device::Batch& batch, const Parameters& parameters, Layer layer,
             int k, std::span<std::int32_t> items, std::span<float> scores) override;

  std::unique_ptr<device::ItemMatrix> make_item_matrix(
      std::int64_t, const std::function<void(std::int64_t, std::int64_t, std::span<float>)>&) override {
    return nullptr;
  }
  device::Solver* solver() override { return nullptr; }

 private:
  bool bf16() const { return precision_ == device::Precision::bf16; }
  device::DType dtype() const { return bf16() ? device::DType::bf16 : device::DType::fp32; }
  double measure_gemm_rate(std::int64_t max_bytes);
  double measure_memory_rate(std::int64_t max_bytes);
  /// Calls use(user, scores) for each user of the batch, from any thread, with the scores of the items of
  /// this rank's item slice. The user's seen items have the score minus infinity. Scores of several users are
  /// in memory at the same time; they are valid until after(users) returns, which is called once for these
  /// users. Collective.
  void for_scores(const Matrix& hidden, const Batch& batch, const Parameters& parameters, Layer layer,
                  const std::function<void(std::int64_t, std::span<const float>)>& use,
                  const std::function<void(Range users)>& after = {});
  /// Returns `values` as a product operand: `values` itself or, in bf16, a copy written to `copy`.
  const void* operand(const float* values, std::int64_t n, AlignedArray<std::uint16_t>& copy);
  /// Returns the address of element `index` of `operand`.
  const void* element(const void* operand, std::int64_t index) const;
  /// Writes dbias = column sums of d (B, N), each column by one thread.
  void column_sums(const Matrix& d, float* to);

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
/// The number of items whose rows of a table's gradient are reported together.
constexpr std::int64_t reported_items = 4096;
/// Returns the number of users that are processed together, a multiple of 32 and at most `most`: fewer if a
/// value of 4 bytes for each user and item of an item slice would take more than `max_bytes`. All ranks of a
/// model-parallel group have the same number.
constexpr std::int64_t bounded_users(const ItemSlice& items, std::int64_t most, std::int64_t max_bytes) {
  const std::int64_t of_item_slice = (items.all + items.step - 1) / items.step;
  return std::clamp<std::int64_t>(max_bytes / (4 * std::max<std::int64_t>(of_item_slice, 1)) / 32 * 32, 32,
                                  most);
}
/// Returns the maximum number of users in a block of the output layer: larger batches are split, so that the
/// data of a tile fit into the L2 cache, and the exponentials into 256 MiB.
constexpr std::int64_t block_users(const ItemSlice& items) {
  return bounded_users(items, 512, std::int64_t{256} << 20);
}
/// Returns the maximum number of users whose scores are stored at the same time: 256 rows of ML-20M's items
/// take 20 MB.
constexpr std::int64_t scored_users(const ItemSlice& items) {
  return bounded_users(items, 256, std::int64_t{128} << 20);
}

}  // namespace vaecf::cpu
