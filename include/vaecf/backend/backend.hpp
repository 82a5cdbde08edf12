#pragma once

#include <vaecf/backend/parameters.hpp>
#include <vaecf/backend/update_rule.hpp>
#include <vaecf/base/views.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace vaecf::backend {

enum class Precision { automatic, fp32, bf16, fp16 };
enum class Activation { identity, tanh };

/// What a run may choose about its backend.
struct BackendOptions {
  std::string device = "auto";                 ///< auto | cpu | cuda
  Precision precision = Precision::automatic;  ///< auto: bf16 on CUDA and on CPUs with AMX, else fp32
  std::string kernels = "auto";                ///< auto | portable: plain loops, no library products
  int threads = 0;                             ///< 0: this rank's share of the cores it is bound to
};

/// Flat device memory of floats, zeroed at birth, owned by the backend that made it.
class FloatBuffer {
 public:
  virtual ~FloatBuffer() = default;
  virtual float* data() = 0;
  virtual const float* data() const = 0;
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

/// Users' item lists, resident where the backend computes.
class UserRows {
 public:
  virtual ~UserRows() = default;
  virtual std::int64_t rows() const = 0;
};

/// The batch in work: X (B, I) and its transpose, cut by `gather_batch`.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual std::int64_t users() const = 0;
};

/// What the counter-based randomness of a step is keyed by; see math/philox.hpp.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;  ///< updates done before this one
};

/// Where the host finds out that work on the device is done; null on the CPU, where it is done already.
struct Completion {
  void* event = nullptr;
};

/// Told as soon as a flat range of the gradient is final, in the order of ParameterLayout: the output
/// layer's weight comes in several row ranges, so that its reduction can start while backward goes on.
using GradientReady = std::function<void(Range flat, Completion)>;

/// Loss terms as sums over the users of a batch, fp64.
struct LossSums {
  double nll = 0.0;  ///< - sum_u sum_i x_ui log_softmax(logits_u)_i
  double kl = 0.0;   ///< sum_u KL(q(z|x_u) || N(0, 1))
};

/// Who computes: a list of coarse verbs on whole batches, B users at a time. Not a tensor library; each
/// backend fuses inside a verb as its machine likes. Every verb accepts 0 rows. Gradients are sums over
/// users, written (not accumulated) into the flat buffer `gradients` of layout().size elements.
/// Formulas: Liang et al., "Variational Autoencoders for Collaborative Filtering", WWW 2018, sections 2, 3.
class Backend {
 public:
  virtual ~Backend() = default;

  /// One line for the log: device, threads, precision and which kernels run.
  virtual std::string description() const = 0;
  virtual std::string device() const = 0;   ///< "cpu" or "cuda"
  virtual Precision precision() const = 0;  ///< resolved, never `automatic`
  virtual int threads() const = 0;

  // Memory.
  /// Lays out tensors given in the order of readiness.
  virtual ParameterLayout plan_parameters(std::span<const TensorSpec> tensors) const = 0;
  virtual std::unique_ptr<Parameters> make_parameters(const ParameterLayout& layout) = 0;
  virtual std::unique_ptr<FloatBuffer> make_buffer(std::int64_t size) = 0;
  virtual std::unique_ptr<Activations> make_activations(std::int64_t max_rows, std::int64_t columns) = 0;
  virtual std::unique_ptr<Batch> make_batch() = 0;
  /// Keeps `rows`, whose first row is user number `first_user` of its set. On the CPU the memory behind
  /// the view must outlive the result.
  virtual std::unique_ptr<UserRows> hold_rows(CsrView rows, std::int64_t first_user, std::int64_t items) = 0;
  virtual void fill(FloatBuffer& buffer, float value) = 0;
  virtual void synchronize() = 0;

  /// Copies logical rows [rows.begin, rows.end) of tensor `tensor`, row-major and unpadded, into or out of
  /// a flat buffer in `layout`. The only two verbs that know both layouts.
  virtual void import_rows(const ParameterLayout& layout, int tensor, Range rows,
                           std::span<const float> logical, FloatBuffer& flat) = 0;
  virtual void export_rows(const ParameterLayout& layout, int tensor, Range rows, const FloatBuffer& flat,
                           std::span<float> logical) const = 0;
  /// Must follow any write to `parameters.master()` that `update` did not do: renews the copies.
  virtual void weights_changed(Parameters& parameters) = 0;

  /// Activations to and from the host as (rows, columns) row-major fp32; for tests and small results.
  virtual void write_activations(Activations& to, std::int64_t rows, std::span<const float> values) = 0;
  virtual void read_activations(const Activations& from, std::span<float> values) const = 0;

  // The batch.
  /// Cuts the rows numbered `rows` (local to `source`) into `batch`; `with_transpose` when its loss or
  /// gradients are wanted (std::logic_error there otherwise).
  virtual void gather_batch(const UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                            Batch& batch) = 0;

  // Forward.
  /// output = act(bias + sum over the user's items i of s_ui W_i), s_ui = dropout_ui / sqrt(n_u): the rows
  /// are L2-normalised, then dropped out with `keep` (kept values divided by keep). keep = 1: no dropout.
  virtual void encode_input(const Batch& batch, const Parameters& parameters, Layer layer, Activation act,
                            float keep, StepKey key, Activations& output) = 0;
  /// output = act(input W + bias).
  virtual void linear(const Activations& input, const Parameters& parameters, Layer layer, Activation act,
                      Activations& output) = 0;
  /// statistics (B, 2L) = [mu | logvar] -> z (B, L) = mu + eps * exp(logvar / 2), eps ~ N(0, 1) by Philox.
  virtual void sample_latent(const Batch& batch, const Activations& statistics, StepKey key,
                             Activations& z) = 0;
  /// z = mu, for validation, test and recommendation.
  virtual void latent_mean(const Activations& statistics, Activations& z) = 0;

  // Loss and backward.
  /// The output layer with its loss, one verb because (B, I) need never exist as a whole:
  /// logits = hidden W + bias; sums.nll is increased; d_hidden = gradient of `hidden`; gradients of W and
  /// bias are written. Row ranges of dW go to `ready` as soon as they are final; whether d_hidden is summed
  /// beside them (CPU: while the tile is in cache) or after them is the backend's business.
  virtual void softmax_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                  Layer layer, LossSums& sums, Activations& d_hidden, FloatBuffer& gradients,
                                  const GradientReady& ready) = 0;
  /// The same loss without gradients, for validation of the loss itself and finite differences.
  virtual void softmax_layer_loss(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                  Layer layer, LossSums& sums) = 0;
  /// d_output (gradient of the layer's output) is turned in place into the gradient before `act`; writes
  /// dW, dbias, and d_input unless it is null.
  virtual void linear_backward(const Activations& input, const Parameters& parameters, Layer layer,
                               Activation act, const Activations& output, Activations& d_output,
                               Activations* d_input, FloatBuffer& gradients, const GradientReady& ready) = 0;
  /// d_statistics (B, 2L) from d_z (B, L), with the gradient of beta * KL added; sums.kl is increased.
  virtual void latent_backward(const Batch& batch, const Activations& statistics, StepKey key, float beta,
                               const Activations& d_z, LossSums& sums, Activations& d_statistics) = 0;
  /// Weight gradient of `encode_input`: a segment reduction over the batch's transpose, no atomics. Rows of
  /// items that no user of the batch holds get zero.
  virtual void input_gradient(const Batch& batch, const ParameterLayout& layout, Layer layer, Activation act,
                              float keep, StepKey key, const Activations& output, Activations& d_output,
                              FloatBuffer& gradients, const GradientReady& ready) = 0;

  // Optimiser.
  /// Applies `rule` to the flat elements of `range`, which lies within one tensor, and renews the copies.
  virtual void update(const UpdateRule& rule, Range range, const FloatBuffer& gradients,
                      FloatBuffer& first_moment, FloatBuffer& second_moment, Parameters& parameters) = 0;
  /// Sum of squares of one tensor, fp64: the loss term of weight decay.
  virtual double sum_of_squares(const Parameters& parameters, int tensor) = 0;

  // Held-out users.
  /// For each entry of `targets` (rows as in `batch`, whose own items are masked): how many unmasked items
  /// beat it, higher score first, then lower item: its rank from 0. A target that is itself masked gets I.
  virtual void rank_held_out(const Activations& hidden, const Batch& batch, CsrView targets,
                             const Parameters& parameters, Layer layer, std::span<std::int32_t> ranks) = 0;
  /// The k best unmasked items of each user, best first, ties to the lower item; items (B, k), scores
  /// (B, k). Where fewer than k are left, item -1 and score -inf.
  virtual void top_k(const Activations& hidden, const Batch& batch, const Parameters& parameters, Layer layer,
                     int k, std::span<std::int32_t> items, std::span<float> scores) = 0;

  /// The machine's rate for the products that dominate a step, fp32 or bf16 as this backend computes:
  /// GFLOP/s, measured now on a large square-ish product.
  virtual double measure_gemm_rate() = 0;
};

/// The backend that `options` ask for. InputError where it cannot be had, saying exactly what is missing.
std::unique_ptr<Backend> make_backend(const BackendOptions& options);

std::string to_string(Precision precision);

}  // namespace vaecf::backend
