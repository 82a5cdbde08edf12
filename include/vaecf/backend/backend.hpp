#pragma once

#include <vaecf/backend/parameters.hpp>
#include <vaecf/backend/step.hpp>
#include <vaecf/backend/update_rule.hpp>
#include <vaecf/base/narrow.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/math/metrics.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::backend {

enum class Precision { automatic, fp32, bf16, fp16, tf32 };
enum class Activation { identity, tanh };

/// Of a rank.
inline constexpr int most_threads = 4096;

/// What a run may choose about its backend.
struct BackendOptions {
  std::string device = "auto";                 ///< auto | cpu | cuda
  Precision precision = Precision::automatic;  ///< auto: bf16 on CUDA and on CPUs with AMX, else fp32
  std::string kernels = "auto";                ///< auto | portable: plain loops, no library products
  int threads = 0;  ///< up to most_threads; 0: this rank's share of the cores it is bound to
  // On GPUs:
  std::string resident =
      "auto";                  ///< auto | on | off: keep the shard in the GPU's memory (auto: where it fits)
  std::string graph = "auto";  ///< auto | on | off: record the step once and replay it
  bool deterministic = false;  ///< the same bits from run to run, where speed would choose otherwise
  int local_rank = 0;          ///< of the ranks on this host, which takes which GPU
  int local_size = 1;
  bool allow_shared_gpu = false;  ///< several ranks may use one GPU: for tests, never for speed
};

/// Flat device memory of floats, zeroed at birth, owned by the backend that made it.
class FloatBuffer {
 public:
  virtual ~FloatBuffer() = default;
  virtual float* data() = 0;
  virtual const float* data() const = 0;
  virtual std::int64_t size() const = 0;
};

/// The same for bf16 numbers on their way between ranks.
class NarrowBuffer {
 public:
  virtual ~NarrowBuffer() = default;
  virtual Bf16* data() = 0;
  virtual const Bf16* data() const = 0;
  virtual std::int64_t size() const = 0;
};

/// The weights: fp32 masters in the flat layout, with whatever copies the backend computes on (bf16).
class Parameters {
 public:
  virtual ~Parameters() = default;
  virtual const ParameterLayout& layout() const = 0;
  virtual FloatBuffer& master() = 0;
  virtual const FloatBuffer& master() const = 0;
};

/// Activations (rows, columns) of the batch in work, in the backend's own storage format.
/// Made once with room for `max_rows`; verbs set `rows` to those of the batch.
class Activations {
 public:
  virtual ~Activations() = default;
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t columns() const = 0;
};

/// Users' item lists: a shard, or held-out users.
class UserRows {
 public:
  virtual ~UserRows() = default;
  virtual std::int64_t rows() const = 0;
  /// Where they lie and why, for the log.
  virtual std::string description() const = 0;
};

/// Which rows make which batch of an epoch, resident where the backend computes.
class BatchOrder {
 public:
  virtual ~BatchOrder() = default;
  virtual std::int64_t batches() const = 0;
  virtual std::int64_t users(std::int64_t batch) const = 0;
};

/// The batch in work: X (B, I) and its transpose, cut by `gather_batch`.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual std::int64_t users() const = 0;
};

/// Told as soon as a flat range of the gradient is final, in the order of ParameterLayout: the output
/// layer's weight comes in several row ranges, so that its reduction can start while backward goes on.
using GradientReady = std::function<void(Range flat, Completion)>;

/// Both moments of the optimizer: flat like the weights, or, if ranks share the update, only those of this
/// rank's elements, back to back. Element i of the weights has moments i + offset; offsets are multiples
/// of 64.
struct Moments {
  FloatBuffer& first;
  FloatBuffer& second;
  std::int64_t offset = 0;
};

/// Lets a verb that makes a layer's weight gradient apply the step's rule to that layer at once, while the
/// gradient is in cache. The layer's ranges of the gradient buffer then mean nothing, and nothing is
/// reported as ready.
struct FusedUpdate {
  Parameters& parameters;
  FloatBuffer& first_moment;
  FloatBuffer& second_moment;
};

/// What is kept of the input. Of a user's items each with probability `items`, and kept values are divided by
/// it; all or nothing of them with probability `history`, as they are: so that the model meets users of whom
/// nothing but a side input is known. 1: no dropout.
struct Keep {
  Keep(float of_items, float of_histories = 1.0F) : items(of_items), history(of_histories) {}
  float items;
  float history;
};

/// What users have beside their items: the same users' rows of other columns, and the tensor (columns, width)
/// that has a row for each of them.
struct SideInput {
  const Batch& batch;
  int table = -1;
};

/// Sums of ranking metrics over users, kept where the backend computes.
class MetricTotals {
 public:
  virtual ~MetricTotals() = default;
};

/// Verbs that ran once and can run again as they are, on whatever the step state and resident data then hold.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// Takes the time between verbs where they run, and keeps nobody waiting.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// A mark that is reached when all verbs so far are done. Never part of a recording.
  virtual void mark() = 0;
  /// Seconds from each mark to the next; waits for the last one, and forgets them all.
  virtual std::vector<double> read() = 0;
  /// When the last mark of the last read() was reached, by the host's clock. On a device, as far as a host
  /// can tell that waits for all of its work.
  virtual std::chrono::steady_clock::time_point last() const = 0;
};

/// Who computes: a list of coarse verbs on whole batches, B users at a time. Not a tensor library; each
/// backend fuses inside a verb as its machine likes. Every verb accepts 0 rows. Gradients are sums over
/// users, written (not accumulated) into the flat buffer `gradients` of layout().size elements.
/// Formulas: Liang et al., "Variational Autoencoders for Collaborative Filtering", WWW 2018, sections 2, 3.
class Backend {
 public:
  using Buffer = FloatBuffer;
  using NarrowBuffer = backend::NarrowBuffer;
  using Weights = Parameters;
  using StepState = backend::StepState;
  using Graph = Recording;

  virtual ~Backend() = default;

  /// One line for the log: device, threads, precision and which kernels run.
  virtual std::string description() const = 0;
  virtual std::string device() const = 0;   ///< "cpu" or "cuda"
  virtual Precision precision() const = 0;  ///< resolved, never `automatic`
  virtual int threads() const = 0;
  /// What tells this device from all others ("GPU-..."); empty where ranks may share it.
  virtual std::string device_id() const = 0;

  // Memory.
  /// Lays out tensors given in the order of readiness.
  virtual ParameterLayout plan_parameters(std::span<const TensorSpec> tensors) const = 0;
  /// The master buffer has room for `min_size` elements at least, zeros behind the layout's.
  virtual std::unique_ptr<Parameters> make_parameters(const ParameterLayout& layout,
                                                      std::int64_t min_size = 0) = 0;
  virtual std::unique_ptr<FloatBuffer> make_buffer(std::int64_t size) = 0;
  virtual std::unique_ptr<NarrowBuffer> make_narrow_buffer(std::int64_t size) = 0;
  virtual std::unique_ptr<Activations> make_activations(std::int64_t max_rows, std::int64_t columns) = 0;
  virtual std::unique_ptr<Batch> make_batch() = 0;
  /// Keeps `rows`, whose first row is user number `first_user` of its set. On the CPU the memory behind
  /// the view must outlive the result.
  virtual std::unique_ptr<UserRows> hold_rows(CsrView rows, std::int64_t first_user, std::int64_t items) = 0;
  virtual void fill(FloatBuffer& buffer, float value) = 0;
  /// Waits until all verbs so far are done. RunError where the device failed.
  virtual void synchronize() = 0;
  /// `check` is called again and again while the host waits for the device; it may throw to end the wait.
  virtual void while_waiting(std::function<void()> check) = 0;
  /// The verbs so far, as something that another queue can wait for; and the other way round: the verbs that
  /// follow wait for `done`. No host waits.
  virtual Completion mark() = 0;
  virtual void wait_for(Completion done) = 0;

  /// Copies logical rows [rows.begin, rows.end) of tensor `tensor`, row-major and unpadded, into or out of
  /// a flat buffer in `layout`. The only two verbs that know both layouts.
  virtual void import_rows(const ParameterLayout& layout, int tensor, Range rows,
                           std::span<const float> logical, FloatBuffer& flat) = 0;
  virtual void export_rows(const ParameterLayout& layout, int tensor, Range rows, const FloatBuffer& flat,
                           std::span<float> logical) const = 0;
  /// Must follow any write to `parameters.master()` that `update` did not do: renews the copies.
  virtual void weights_changed(Parameters& parameters) = 0;
  virtual void weights_changed(Parameters& parameters, Range range) = 0;
  /// Elements `range` of `from`, rounded to bf16, become elements from `at` on of `to`; and back.
  virtual void narrow(const FloatBuffer& from, Range range, NarrowBuffer& to, std::int64_t at) = 0;
  virtual void widen(const NarrowBuffer& from, Range range, FloatBuffer& to, std::int64_t at) = 0;
  /// Elements `range` of `from` become elements from `at` on of `to`.
  virtual void copy(const FloatBuffer& from, Range range, FloatBuffer& to, std::int64_t at) = 0;

  /// Activations to and from the host as (rows, columns) row-major fp32; for tests and small results.
  virtual void write_activations(Activations& to, std::int64_t rows, std::span<const float> values) = 0;
  virtual void read_activations(const Activations& from, std::span<float> values) const = 0;

  // The step.
  virtual std::unique_ptr<StepState> make_step_state() = 0;
  /// Gives the verbs that follow their numbers. Never part of a recording.
  virtual void begin_step(const StepNumbers& numbers, StepState& step) = 0;
  /// Looks at elements `range` of `gradients` before any weight changes, and adds to verdict(step), which
  /// begin_step set to 0: in fp16 the number of elements that are not finite, and, if the step's rule clips,
  /// the squares of the elements as `update` scales them. If ranks look at different elements, the caller
  /// sums the verdicts over ranks. All elements must have been looked at before the first `update`.
  virtual void inspect_gradients(const FloatBuffer& gradients, Range range, StepState& step) = 0;
  /// Two elements: the number of overflows, above 0 of which `update` does nothing, and the sum of squares.
  virtual FloatBuffer& verdict(StepState& step) = 0;
  /// The step's losses join the sums, or it counts as skipped; the loss scale moves on.
  virtual void end_step(StepState& step) = 0;
  virtual void clear_losses(StepState& step) = 0;
  /// What the next steps add to, as after a resume from the middle of an epoch. No step is broken any more.
  virtual void set_losses(const LossSums& sums, StepState& step) = 0;
  /// Sums over the steps ended so far; waits for them.
  virtual LossSums read_losses(StepState& step) = 0;
  /// The same without waiting: a look at some recent past, at least as new as that of the call before;
  /// nothing where no look has come back yet.
  virtual std::optional<LossSums> poll_losses(StepState& step) = 0;
  virtual LossScale loss_scale(StepState& step) = 0;
  virtual void set_loss_scale(LossScale scale, StepState& step) = 0;

  /// Runs `work`, which calls verbs and nothing that waits, and returns its recording; null where this
  /// backend (or `graph: off`) does not record: then `work` ran all the same. `work` may be called twice on
  /// the host, though what it asks for runs once: first to run it, then to record it.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;
  /// Whether a recording may run: false where memory that it used has moved since.
  virtual bool fits(const Recording& recording) const = 0;
  /// Runs a recording. False, and nothing ran, where it does not fit: record anew.
  virtual bool replay(Recording& recording) = 0;

  // The batch.
  virtual std::unique_ptr<BatchOrder> make_batch_order() = 0;
  /// `rows` (local to `source`) of all batches back to back; batch t is rows[begin[t] .. begin[t + 1]).
  virtual void set_batch_order(const UserRows& source, std::span<const std::int64_t> rows,
                               std::span<const std::int64_t> begin, BatchOrder& order) = 0;
  /// Cuts the batch that `step` numbers, of `users` = order.users(that number) rows, with its transpose.
  virtual void gather_step(const UserRows& source, const BatchOrder& order, const StepState& step,
                           std::int64_t users, Batch& batch) = 0;
  /// Cuts the rows numbered `rows` (local to `source`) into `batch`; `with_transpose` when its loss or
  /// gradients are wanted (std::logic_error there otherwise).
  virtual void gather_batch(const UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                            Batch& batch) = 0;

  // Forward.
  /// output = act(bias + sum over the user's items i of s_ui W_i), s_ui = dropout_ui / sqrt(n_u): the rows
  /// are L2-normalised, then dropped out as `keep` says.
  /// With `side` (null: none) the sum over the user's m_u columns f there of V_f / sqrt(m_u) is added before
  /// `act`, V being the side's table: normalised on its own, and never dropped out.
  virtual void encode_input(const Batch& batch, const Parameters& parameters, Layer layer, Activation act,
                            Keep keep, const StepState& step, Activations& output,
                            const SideInput* side = nullptr) = 0;
  /// output = act(input W + bias).
  virtual void linear(const Activations& input, const Parameters& parameters, Layer layer, Activation act,
                      Activations& output) = 0;
  /// statistics (B, 2L) = [mu | logvar] -> z (B, L) = mu + eps * exp(logvar / 2), eps ~ N(0, 1) by Philox.
  virtual void sample_latent(const Batch& batch, const Activations& statistics, const StepState& step,
                             Activations& z) = 0;
  /// z = mu, for validation, test and recommendation.
  virtual void latent_mean(const Activations& statistics, Activations& z) = 0;

  // Loss and backward.
  /// The output layer with its loss, one verb because (B, I) need never exist as a whole:
  /// logits = hidden W + bias; the step's nll is increased; d_hidden = gradient of `hidden`; gradients of W
  /// and bias are written, or with `fused` (only where fuses_updates() and the rule does not clip; null: not)
  /// W and bias are updated, d_hidden still by the weights before. In fp16 all gradients from here on carry
  /// the loss scale. Row ranges of dW go to `ready` as soon as they are final; whether d_hidden is summed
  /// beside them (CPU: while the tile is in cache) or after them is the backend's business.
  virtual void softmax_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                  Layer layer, StepState& step, Activations& d_hidden, FloatBuffer& gradients,
                                  const GradientReady& ready, const FusedUpdate* fused = nullptr) = 0;
  virtual bool fuses_updates() const = 0;
  /// The same loss without gradients, for validation of the loss itself and finite differences.
  virtual void softmax_layer_loss(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                  Layer layer, StepState& step) = 0;
  /// d_output (gradient of the layer's output) is turned in place into the gradient before `act`; writes
  /// dW, dbias, and d_input unless it is null.
  virtual void linear_backward(const Activations& input, const Parameters& parameters, Layer layer,
                               Activation act, const Activations& output, Activations& d_output,
                               Activations* d_input, FloatBuffer& gradients, const GradientReady& ready) = 0;
  /// d_statistics (B, 2L) from d_z (B, L), with the gradient of beta * KL added; the step's kl is
  /// increased.
  virtual void latent_backward(const Batch& batch, const Activations& statistics, StepState& step,
                               const Activations& d_z, Activations& d_statistics) = 0;
  /// Weight gradient of `encode_input`: a segment reduction over the batch's transpose, no atomics. Rows of
  /// items that no user of the batch holds get zero. With `fused` as in softmax_layer_step.
  virtual void input_gradient(const Batch& batch, const ParameterLayout& layout, Layer layer, Activation act,
                              Keep keep, const StepState& step, const Activations& output,
                              Activations& d_output, FloatBuffer& gradients, const GradientReady& ready,
                              const FusedUpdate* fused = nullptr) = 0;
  /// Gradient of the table of a side input, summed likewise; d_before is that before the activation, which
  /// input_gradient has made of d_output. Never fused.
  virtual void side_gradient(const SideInput& side, const ParameterLayout& layout,
                             const Activations& d_before, FloatBuffer& gradients,
                             const GradientReady& ready) = 0;

  // Optimiser.
  /// Applies the step's rule, without its decay unless `decays`, to the flat elements of `range`, which lie
  /// within one tensor, and renews the copies.
  virtual void update(const StepState& step, bool decays, Range range, const FloatBuffer& gradients,
                      Moments moments, Parameters& parameters) = 0;
  /// Sum of squares of one tensor, fp64: the loss term of weight decay.
  virtual double sum_of_squares(const Parameters& parameters, int tensor) = 0;

  // Held-out users.
  /// For each entry of `targets` (rows as in `batch`, whose own items are masked): how many unmasked items
  /// beat it, higher score first, then lower item: its rank from 0. A target that is itself masked gets I.
  virtual void rank_held_out(const Activations& hidden, const Batch& batch, CsrView targets,
                             const Parameters& parameters, Layer layer, std::span<std::int32_t> ranks) = 0;
  virtual std::unique_ptr<MetricTotals> make_metric_totals(std::size_t metrics) = 0;
  /// Ranks as above, of rows `rows` of `targets` (as many as `batch` has users), made into metrics and added
  /// up on the spot: only totals ever leave the device. Users without a target are left out.
  virtual void add_metrics(const Activations& hidden, const Batch& batch, const UserRows& targets, Range rows,
                           const Parameters& parameters, Layer layer, std::span<const math::Metric> metrics,
                           MetricTotals& totals) = 0;
  /// One per metric; waits for them.
  virtual std::vector<math::MetricSums> read_metrics(MetricTotals& totals) = 0;
  /// The k best unmasked items of each user, best first, ties to the lower item; items (B, k), scores
  /// (B, k). Where fewer than k are left, item -1 and score -inf.
  virtual void top_k(const Activations& hidden, const Batch& batch, const Parameters& parameters, Layer layer,
                     int k, std::span<std::int32_t> items, std::span<float> scores) = 0;

  /// The machine's rate for the products that dominate a step, fp32 or bf16 as this backend computes:
  /// GFLOP/s, measured now on a large square-ish product.
  virtual double measure_gemm_rate() = 0;
  /// The rate of the memory that holds weights and moments: GB/s read and written, measured now by copying
  /// more than caches hold.
  virtual double measure_memory_rate() = 0;
  virtual std::unique_ptr<Stopwatch> make_stopwatch() = 0;
  /// The most bytes of device memory that were ever in use; 0 on the CPU, where the process is what counts.
  virtual std::int64_t peak_device_bytes() const = 0;
};

/// The backend that `options` ask for. InputError where it cannot be had, saying exactly what is missing.
std::unique_ptr<Backend> make_backend(const BackendOptions& options);

std::string to_string(Precision precision);

}  // namespace vaecf::backend
