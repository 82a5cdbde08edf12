#pragma once

#include <vaecf/backend/backend.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "panels.hpp"
#include "product.hpp"
#include "storage.hpp"
#include "tile_kernels.hpp"

namespace vaecf::cpu {

/// The backend for machines without a GPU: OpenMP over rows or item tiles, products by oneDNN on one thread
/// each, the output layer kept item-major, (I, K), so that a tile of transposed logits has users across the
/// vector lanes. In bf16 all products take bf16 operands and sum in fp32; the gather of the input layer, its
/// gradient, the master weights and all else are fp32.
class CpuBackend : public backend::Backend {
 public:
  /// The output layer's own kernels, `tiles` in bf16 and `panels` in fp32; null for oneDNN or, with
  /// `portable`, plain loops.
  CpuBackend(int threads, backend::Precision precision, bool portable,
             std::shared_ptr<const TileKernels> tiles = nullptr, PanelKernel panels = nullptr);
  ~CpuBackend() override;

  std::string description() const override;
  std::string device() const override { return "cpu"; }
  backend::Precision precision() const override { return precision_; }
  int threads() const override { return threads_; }
  std::string device_id() const override { return ""; }

  backend::ParameterLayout plan_parameters(std::span<const backend::TensorSpec> tensors) const override;
  std::unique_ptr<backend::Parameters> make_parameters(const backend::ParameterLayout& layout,
                                                       std::int64_t min_size) override;
  std::unique_ptr<backend::FloatBuffer> make_buffer(std::int64_t size) override;
  std::unique_ptr<backend::NarrowBuffer> make_narrow_buffer(std::int64_t size) override;
  std::unique_ptr<backend::Activations> make_activations(std::int64_t max_rows,
                                                         std::int64_t columns) override;
  std::unique_ptr<backend::Batch> make_batch() override;
  std::unique_ptr<backend::UserRows> hold_rows(CsrView rows, std::int64_t first_user,
                                               std::int64_t items) override;
  void fill(backend::FloatBuffer& buffer, float value) override;
  void synchronize() override {}
  void while_waiting(std::function<void()>) override {}
  backend::Completion mark() override { return {}; }
  void wait_for(backend::Completion) override {}
  void import_rows(const backend::ParameterLayout& layout, int tensor, Range rows,
                   std::span<const float> logical, backend::FloatBuffer& flat) override;
  void export_rows(const backend::ParameterLayout& layout, int tensor, Range rows,
                   const backend::FloatBuffer& flat, std::span<float> logical) const override;
  void weights_changed(backend::Parameters& parameters) override;
  void weights_changed(backend::Parameters& parameters, Range range) override;
  void narrow(const backend::FloatBuffer& from, Range range, backend::NarrowBuffer& to,
              std::int64_t at) override;
  void widen(const backend::NarrowBuffer& from, Range range, backend::FloatBuffer& to,
             std::int64_t at) override;
  void copy(const backend::FloatBuffer& from, Range range, backend::FloatBuffer& to,
            std::int64_t at) override;
  void write_activations(backend::Activations& to, std::int64_t rows, std::span<const float> values) override;
  void read_activations(const backend::Activations& from, std::span<float> values) const override;

  std::unique_ptr<backend::StepState> make_step_state() override;
  void begin_step(const backend::StepNumbers& numbers, backend::StepState& step) override;
  void inspect_gradients(const backend::FloatBuffer& gradients, Range range,
                         backend::StepState& step) override;
  backend::FloatBuffer& verdict(backend::StepState& step) override;
  void end_step(backend::StepState& step) override;
  void clear_losses(backend::StepState& step) override;
  void set_losses(const backend::LossSums& sums, backend::StepState& step) override;
  backend::LossSums read_losses(backend::StepState& step) override;
  std::optional<backend::LossSums> poll_losses(backend::StepState& step) override;
  backend::LossScale loss_scale(backend::StepState&) override { return {1.0F, 0}; }
  void set_loss_scale(backend::LossScale, backend::StepState&) override {}
  std::unique_ptr<backend::Recording> record(const std::function<void()>& work) override;
  bool fits(const backend::Recording&) const override { return false; }
  bool replay(backend::Recording&) override { return false; }

  std::unique_ptr<backend::BatchOrder> make_batch_order() override;
  void set_batch_order(const backend::UserRows& source, std::span<const std::int64_t> rows,
                       std::span<const std::int64_t> begin, backend::BatchOrder& order) override;
  void gather_step(const backend::UserRows& source, const backend::BatchOrder& order,
                   const backend::StepState& step, std::int64_t users, backend::Batch& batch) override;
  void gather_batch(const backend::UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                    backend::Batch& batch) override;

  void encode_input(const backend::Batch& batch, const backend::Parameters& parameters, backend::Layer layer,
                    backend::Activation act, backend::Keep keep, const backend::StepState& step,
                    backend::Activations& output, const backend::SideInput* side) override;
  void linear(const backend::Activations& input, const backend::Parameters& parameters, backend::Layer layer,
              backend::Activation act, backend::Activations& output) override;
  void sample_latent(const backend::Batch& batch, const backend::Activations& statistics,
                     const backend::StepState& step, backend::Activations& z) override;
  void latent_mean(const backend::Activations& statistics, backend::Activations& z) override;

  void softmax_layer_step(const backend::Activations& hidden, const backend::Batch& batch,
                          const backend::Parameters& parameters, backend::Layer layer,
                          backend::StepState& step, backend::Activations& d_hidden,
                          backend::FloatBuffer& gradients, const backend::GradientReady& ready,
                          const backend::FusedUpdate* fused) override;
  bool fuses_updates() const override { return true; }
  void softmax_layer_loss(const backend::Activations& hidden, const backend::Batch& batch,
                          const backend::Parameters& parameters, backend::Layer layer,
                          backend::StepState& step) override;
  void linear_backward(const backend::Activations& input, const backend::Parameters& parameters,
                       backend::Layer layer, backend::Activation act, const backend::Activations& output,
                       backend::Activations& d_output, backend::Activations* d_input,
                       backend::FloatBuffer& gradients, const backend::GradientReady& ready) override;
  void latent_backward(const backend::Batch& batch, const backend::Activations& statistics,
                       backend::StepState& step, const backend::Activations& d_z,
                       backend::Activations& d_statistics) override;
  void input_gradient(const backend::Batch& batch, const backend::ParameterLayout& layout,
                      backend::Layer layer, backend::Activation act, backend::Keep keep,
                      const backend::StepState& step, const backend::Activations& output,
                      backend::Activations& d_output, backend::FloatBuffer& gradients,
                      const backend::GradientReady& ready, const backend::FusedUpdate* fused) override;
  void side_gradient(const backend::SideInput& side, const backend::ParameterLayout& layout,
                     const backend::Activations& d_before, backend::FloatBuffer& gradients,
                     const backend::GradientReady& ready) override;

  void update(const backend::StepState& step, bool decays, Range range, const backend::FloatBuffer& gradients,
              backend::Moments moments, backend::Parameters& parameters) override;
  double sum_of_squares(const backend::Parameters& parameters, int tensor) override;

  void rank_held_out(const backend::Activations& hidden, const backend::Batch& batch, CsrView targets,
                     const backend::Parameters& parameters, backend::Layer layer,
                     std::span<std::int32_t> ranks) override;
  std::unique_ptr<backend::MetricTotals> make_metric_totals(std::size_t metrics) override;
  void add_metrics(const backend::Activations& hidden, const backend::Batch& batch,
                   const backend::UserRows& targets, Range rows, const backend::Parameters& parameters,
                   backend::Layer layer, std::span<const math::Metric> metrics,
                   backend::MetricTotals& totals) override;
  std::vector<math::MetricSums> read_metrics(backend::MetricTotals& totals) override;
  void top_k(const backend::Activations& hidden, const backend::Batch& batch,
             const backend::Parameters& parameters, backend::Layer layer, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;

  double measure_gemm_rate() override;
  double measure_memory_rate() override;
  std::unique_ptr<backend::Stopwatch> make_stopwatch() override;
  std::int64_t peak_device_bytes() const override { return 0; }

 private:
  bool bf16() const { return precision_ == backend::Precision::bf16; }
  /// The output layer for some users, as this machine does it best.
  std::unique_ptr<class SoftmaxSlice> softmax_slice(const class OutputSlice& slice);
  /// Calls use(scores, users) for some users of the batch after the other.
  void for_scores(const CpuActivations& hidden, const CpuBatch& batch, const CpuParameters& parameters,
                  backend::Layer layer, const std::function<void(const class Scores&, Range)>& use);
  /// `values` as operand of a product: themselves, or in bf16 runs their copy in `copy`.
  const void* operand(const float* values, std::int64_t n, AlignedArray<std::uint16_t>& copy);
  /// Where element `index` of such an operand lies.
  const void* element(const void* operand, std::int64_t index) const;
  /// dbias = column sums of d (B, N), each column by one thread.
  void column_sums(const CpuActivations& d, float* to);

  int threads_;
  backend::Precision precision_;
  bool portable_;
  std::shared_ptr<const TileKernels> tiles_;
  PanelKernel panels_;
  std::vector<std::unique_ptr<ProductEngine>> engines_;  // one per thread
  std::unique_ptr<struct Workspace> workspace_;
};

/// Items are padded to whole tiles in storage, so that every product of the output layer has one shape.
constexpr std::int64_t tile_items = 128;
/// Users in work at a time: larger batches are cut into slices, so that what belongs to a tile fits the L2.
constexpr std::int64_t slice_users = 512;

}  // namespace vaecf::cpu
