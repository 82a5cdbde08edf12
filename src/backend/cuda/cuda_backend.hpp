#pragma once

#include <vaecf/backend/backend.hpp>

#include <functional>
#include <memory>
#include <string>

#include "rows.hpp"
#include "storage.hpp"

namespace vaecf::cuda {

/// The backend for NVIDIA GPUs: everything within a step happens in one queue of the device, and the host
/// only hands out work. In bf16 and fp16 runs all products take narrow operands and sum in fp32; master
/// weights, gradients, moments and all row math are fp32. Tensors lie as they are logically, rows padded to
/// 16 bytes, and items to a multiple of 256 so that logit rows are aligned and tiles are whole.
class CudaBackend : public backend::Backend {
 public:
  CudaBackend(const backend::BackendOptions& options, int device);
  ~CudaBackend() override;

  std::string description() const override;
  std::string device() const override;
  backend::Precision precision() const override;
  int threads() const override;
  std::string device_id() const override;
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
  void synchronize() override;
  void while_waiting(std::function<void()> check) override;
  backend::Completion mark() override;
  void wait_for(backend::Completion done) override;
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
  backend::LossScale loss_scale(backend::StepState& step) override;
  void set_loss_scale(backend::LossScale scale, backend::StepState& step) override;
  std::unique_ptr<backend::Recording> record(const std::function<void()>& work) override;
  bool fits(const backend::Recording& recording) const override;
  bool replay(backend::Recording& recording) override;
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
  bool fuses_updates() const override;
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
  std::int64_t peak_device_bytes() const override;

 private:
  void count_overflows(const backend::FloatBuffer& gradients, Range range, CudaStep& step);
  void add_squares(const backend::FloatBuffer& gradients, Range range, CudaStep& step);
  Number number() const;  ///< of operands
  bool narrow_run() const { return number() != Number::fp32; }
  /// The gradient of a table whose rows `b`'s users have summed, from that of the sums; dropout as of `step`,
  /// none where it is null.
  void table_gradient(const CudaBatch& b, const backend::TensorLayout& table, backend::Keep keep,
                      const backend::StepState* step, const CudaActivations& d,
                      backend::FloatBuffer& gradients, const backend::GradientReady& ready);
  /// Pinned, with room for a row at least. Whoever uses it waits until the copy is done.
  PinnedArray<float>& staging(std::int64_t row) const;
  /// Unpadded rows on the host to rows `stride` apart on the device, with zeros between; and back. They wait.
  void rows_in(const float* logical, std::int64_t rows, std::int64_t columns, std::int64_t stride,
               float* to) const;
  void rows_out(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                float* logical) const;

  backend::BackendOptions options_;
  backend::Precision precision_;
  Device device_;
  mutable Queue queue_;  // reading back puts a copy into it
  Generation generation_;
  Scratch scratch_;
  Primitives primitives_;
  Matmuls matmuls_;
  std::function<void()> check_;  // called while the host waits
  mutable PinnedArray<float> staging_;
  std::vector<Event> marks_;  // handed out in turn
  std::size_t next_mark_ = 0;
  std::vector<Event> begun_;  // where the last steps began, in turn
  std::size_t next_begun_ = 0;
};

inline CudaBuffer& gpu(backend::FloatBuffer& b) {
  return static_cast<CudaBuffer&>(b);
}
inline const CudaBuffer& gpu(const backend::FloatBuffer& b) {
  return static_cast<const CudaBuffer&>(b);
}
inline CudaNarrowBuffer& gpu(backend::NarrowBuffer& b) {
  return static_cast<CudaNarrowBuffer&>(b);
}
inline const CudaNarrowBuffer& gpu(const backend::NarrowBuffer& b) {
  return static_cast<const CudaNarrowBuffer&>(b);
}
inline CudaParameters& gpu(backend::Parameters& p) {
  return static_cast<CudaParameters&>(p);
}
inline const CudaParameters& gpu(const backend::Parameters& p) {
  return static_cast<const CudaParameters&>(p);
}
inline CudaActivations& gpu(backend::Activations& a) {
  return static_cast<CudaActivations&>(a);
}
inline const CudaActivations& gpu(const backend::Activations& a) {
  return static_cast<const CudaActivations&>(a);
}
inline CudaBatch& gpu(backend::Batch& b) {
  return static_cast<CudaBatch&>(b);
}
inline const CudaBatch& gpu(const backend::Batch& b) {
  return static_cast<const CudaBatch&>(b);
}
inline const CudaRows& gpu(const backend::UserRows& r) {
  return static_cast<const CudaRows&>(r);
}
inline CudaOrder& gpu(backend::BatchOrder& o) {
  return static_cast<CudaOrder&>(o);
}
inline const CudaOrder& gpu(const backend::BatchOrder& o) {
  return static_cast<const CudaOrder&>(o);
}
inline CudaStep& gpu(backend::StepState& s) {
  return static_cast<CudaStep&>(s);
}
inline const CudaStep& gpu(const backend::StepState& s) {
  return static_cast<const CudaStep&>(s);
}
inline CudaMetrics& gpu(backend::MetricTotals& m) {
  return static_cast<CudaMetrics&>(m);
}

}  // namespace vaecf::cuda
