#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/array.hpp>
#include <vaecf/device/device_objects.hpp>
#include <vaecf/device/matrix.hpp>
#include <vaecf/device/model_parallel_group.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/device/parameters.hpp>
#include <vaecf/device/solver.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/math/composite_prior.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/math/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vaecf::device {

/// The gradients that output_layer_step() computes: of the hidden units, of the layer's weights, or both.
enum class OutputGradients { both, hidden, weights };

/// Called as soon as a flat range of the gradient is complete, in any order; that of ParameterLayout lets
/// reductions start early. On the CPU, the output layer's weight arrives in several row ranges, so that its
/// reduction overlaps with the backward pass. Empty: nothing is reported.
using GradientReady = std::function<void(Range flat, EventHandle)>;

/// The scaling of a user's values as input, s_ui in sparse_linear(): L2 normalization of the row, unless
/// `normalized` is false, and dropout with these keep probabilities; 1: no dropout. Each item is kept with
/// probability `item_keep_prob`, and its value is divided by it. The interactions of a user are all dropped
/// with probability 1 - `history_keep_prob`, so that the model learns to use features alone; they are not
/// rescaled.
struct InputScaling {
  InputScaling(float item_probability, float history_probability = 1.0F, bool normalizes = true)
      : item_keep_prob(item_probability), history_keep_prob(history_probability), normalized(normalizes) {}
  float item_keep_prob;
  float history_keep_prob;
  bool normalized;
};

/// Both moments of the optimizer: flat like the weights or, if the update is sharded over ranks, only this
/// rank's elements, packed. The moments of weight i are at i + offset; offsets are multiples of 64.
struct Moments {
  Buffer& first;
  Buffer& second;
  std::int64_t offset = 0;
};

/// A fused update: the operation that computes the gradient of a tensor of items (TensorKind) also updates
/// that tensor, while the gradient is in cache, or beside later operations. Its ranges of the gradient buffer
/// are then undefined and are not reported as ready. Gradients of biases that are not reported, gains and
/// offsets are complete after sparse_linear_backward(). Only if fuses_updates(), the rule does not clip, and
/// no other rank has a gradient of the tensor.
struct FusedUpdate {
  Parameters& parameters;
  Buffer& first_moment;
  Buffer& second_moment;
};

/// The arguments that all operations of a backward pass share. They write (not add) the gradients of their
/// tensors to `gradients`, flat with layout().size elements, and report them to `ready`.
struct Backward {
  const Parameters& parameters;
  StepState& step;
  Buffer& gradients;
  const GradientReady& ready;
  const FusedUpdate* fused = nullptr;  ///< null: no fused updates

  const ParameterLayout& layout() const { return parameters.layout(); }
  /// Returns a copy with these instead of `ready` and `fused`.
  Backward with(const GradientReady& other_ready, const FusedUpdate* other_fused) const {
    return {parameters, step, gradients, other_ready, other_fused};
  }
  /// Calls write(rows) for ranges of `at_once` rows of a table, and reports the gradient of each with the
  /// event that record() returns.
  template <class Write, class Record>
  void write_rows(const TensorLayout& table, std::int64_t at_once, Write&& write, Record&& record) const {
    for (std::int64_t first = 0; first < table.spec.rows; first += at_once) {
      const Range rows{first, std::min(first + at_once, table.spec.rows)};
      write(rows);
      const auto place = [&](std::int64_t row) { return table.range.begin + row * table.stride; };
      const std::int64_t end = rows.end == table.spec.rows ? table.range.end : place(rows.end);
      if (ready) ready({place(rows.begin), end}, record());
    }
  }
};

/// Features of a batch of users: the users' rows of the feature matrix, and the index of the tensor
/// (features, width) with one row per feature.
struct SideFeatures {
  const Batch& batch;
  int table = -1;
};

/// The operations of training and scoring, on whole batches. Not a tensor library: each device fuses the
/// parts of an operation as its hardware requires. Gradients are sums over users.
///
/// B is the number of users of a batch (also 0), I that of items, H that of hidden units, L that of latent
/// dimensions, x_u the row of user u in the batch, before dropout: the values of the user's items, all 1
/// unless the rows have values; n_u is their sum. W (inputs, outputs) is a weight, with one row per input
/// unit or item, the transpose of torch.nn.Linear.weight; act() is an activation. If a model-parallel group
/// shares the items, each of its ranks has the rows of all B users restricted to its item slice, but the
/// activations of its own users only: row r of all activations belongs to user batch.own().begin + r.
/// Operations on tensors of items exchange activations within the model-parallel group and are then
/// collective; n_u and |x_u| are those of all item slices, and a user's losses are summed over the ranks of
/// the model-parallel group. On a GPU, operations are queued on one stream, and the host blocks only where
/// stated. On a CPU, they have finished when they return. One thread uses a device, except where stated.
///
/// Formulas: Liang et al., WWW 2018, sections 2, 3.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual DeviceFacts facts() const = 0;
  /// Measures a peak rate, using at most `max_bytes` of the host's memory and half of a GPU's free memory.
  /// Blocks.
  virtual double measure(Rate rate, std::int64_t max_bytes) = 0;
  /// Returns the bytes of host memory that outputs and scores of batches of `users` users take: 0 on a GPU.
  virtual std::int64_t output_bytes(ItemSlice items, std::int64_t users) const = 0;

  // Memory.

  /// Returns the layout of these tensors, given in the order in which the backward pass completes them.
  virtual ParameterLayout plan_parameters(std::span<const TensorSpec> tensors) const = 0;
  /// Makes weights. The master buffer has at least `min_size` elements; those after the layout's are zero.
  virtual Parameters make_parameters(const ParameterLayout& layout, std::int64_t min_size) = 0;
  virtual Buffer make_buffer(std::int64_t size) = 0;
  virtual Bf16Buffer make_bf16_buffer(std::int64_t size) = 0;
  virtual Matrix make_matrix(std::int64_t max_rows, std::int64_t columns) = 0;
  /// Returns the memory for more buffers; some of the free memory is kept for operations.
  virtual std::int64_t spare_bytes() const = 0;
  /// Stores rows of users, restricted to this rank's item slice of `model_parallel`. `columns` is the number
  /// of items of the whole model; row 0 is user `first_user` of the training or held-out users. On the CPU,
  /// the memory behind `rows` must outlive the result, as must `model_parallel`. Throws InputError if a
  /// column is out of range.
  virtual std::unique_ptr<UserRows> make_user_rows(ItemSliceView rows, std::int64_t first_user,
                                                   std::int64_t columns,
                                                   ModelParallelGroup& model_parallel) = 0;
  virtual std::unique_ptr<BatchSchedule> make_batch_schedule() = 0;
  virtual std::unique_ptr<Batch> make_batch() = 0;
  virtual std::unique_ptr<StepState> make_step_state() = 0;
  /// Makes ranks for `targets` targets, which are 0.
  virtual std::unique_ptr<TargetRanks> make_target_ranks(std::int64_t targets) = 0;
  virtual std::unique_ptr<Timer> make_timer() = 0;
  virtual std::unique_ptr<Exporter> make_exporter() = 0;
  virtual void fill(Buffer& buffer, float value) = 0;
  /// copy(), cast_to_bf16() and cast_to_fp32() write elements `range` of `from` to `to`, starting at `at`;
  /// bf16: rounded to nearest even.
  virtual void copy(const Buffer& from, Range range, Buffer& to, std::int64_t at) = 0;
  virtual void cast_to_bf16(const Buffer& from, Range range, Bf16Buffer& to, std::int64_t at) = 0;
  virtual void cast_to_fp32(const Bf16Buffer& from, Range range, Buffer& to, std::int64_t at) = 0;
  /// Updates the 16-bit copies of flat elements `range`. Must be called after every write to master() except
  /// by update().
  virtual void refresh_copies(Parameters& parameters, Range range) = 0;
  /// Copies logical rows `rows` of a tensor, row-major and without padding, from the host to `flat`. Blocks.
  virtual void import_rows(const ParameterLayout& layout, int tensor, Range rows,
                           std::span<const float> logical, Buffer& flat) = 0;
  /// Copies such rows from `flat` to the host. Blocks.
  virtual void export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                           std::span<float> logical) const = 0;
  /// Copies (rows, columns) values, row-major without padding, to and from the host. Blocks.
  virtual void write_matrix(Matrix& to, std::int64_t rows, std::span<const float> values) = 0;
  virtual void read_matrix(const Matrix& from, std::span<float> values) const = 0;

  // The stream.

  /// Blocks until all operations are done. Throws RunError if the device failed.
  virtual void synchronize() = 0;
  /// Returns the point reached so far, for other streams to wait for.
  virtual EventHandle record_event() = 0;
  /// Operations that follow start only once `done` is reached.
  virtual void wait_event(EventHandle done) = 0;
  /// Captures the operations that `work` calls, none of which may block, as a graph, and runs them. `work`
  /// may be called twice, but its operations run once. Returns null if the device does not support capture;
  /// then they have run as usual.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;
  /// Returns false if memory that `graph` uses was reallocated.
  virtual bool is_valid(const Graph& graph) const = 0;
  /// Runs `graph`; returns false, without running anything, if it is not valid.
  [[nodiscard]] virtual bool replay(Graph& graph) = 0;

  // The step. Its operations read seed, batch, beta and rule from `step` in device memory, so that a replayed
  // graph uses those of its step.

  /// Sets the parameters of the operations that follow. Never captured.
  virtual void begin_step(const StepParams& params, StepState& step) = 0;
  /// Adds the statistics of gradient elements `range` to gradient_stats(). Required in fp16 and if the rule
  /// clips, for the whole gradient before the first update().
  virtual void accumulate_gradient_stats(const Buffer& gradients, Range range, StepState& step) = 0;
  /// Returns two elements, which begin_step() sets to 0: the number of non-finite gradient elements, counted
  /// in fp16 only, which makes update() do nothing unless it is 0; and the sum of squares, scaled as in
  /// update(), computed only if the rule clips. Ranks with different ranges must all-reduce them.
  virtual Buffer& gradient_stats(StepState& step) = 0;
  /// Adds the step's losses to the sums, or counts the step as skipped, and updates the loss scale.
  virtual void end_step(StepState& step) = 0;
  /// Returns the sums of losses and the loss scale after all steps ended so far. Blocks.
  virtual StepSums sums(StepState& step) = 0;
  /// Returns recent sums, never older than those of the previous call, or nullopt. Does not block.
  virtual std::optional<LossSums> poll_losses(StepState& step) = 0;
  /// Overwrites the sums, and removes the record of a non-finite step.
  virtual void set_losses(const LossSums& losses, StepState& step) = 0;
  virtual void set_loss_scale(LossScale scale, StepState& step) = 0;

  // The batch.

  /// Checks the batches of one pass and copies them to the device; batch t consists of rows[begin[t] ..
  /// begin[t + 1]) of `source`. On a GPU, row -1 is a user without items, who pads a batch
  /// (StepParams::users). The first upload to a schedule must be made by the thread that uses the
  /// device; another thread may make later ones, of at most as many users and batches, during steps with the
  /// current pass.
  virtual void upload_batch_schedule(const UserRows& source, std::span<const std::int64_t> rows,
                                     std::span<const std::int64_t> begin, BatchSchedule& schedule) = 0;
  /// Makes the last uploaded pass the current one; does nothing without a new one.
  virtual void start_batch_schedule(const UserRows& source, BatchSchedule& schedule) = 0;
  /// Gathers the batch that `step` selects, which has `users` users, with its transpose.
  virtual void gather_scheduled_batch(const UserRows& source, const BatchSchedule& schedule,
                                      const StepState& step, std::int64_t users, Batch& batch) = 0;
  /// Gathers the given rows, with the transpose if losses or gradients are needed.
  virtual void gather_batch(const UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                            Batch& batch) = 0;

  // Forward pass.

  /// output (B, H) = act(bias + sum over the user's items i of s_ui W_i), s_ui = dropout_ui x_ui / |x_u|,
  /// where dropout_ui is 0 or 1 / item_keep_prob, and 0 for all items of a dropped history: rows are
  /// L2-normalized before dropout, unless `scaling` does not normalize (s_ui = dropout_ui x_ui). With `side`
  /// (may be null), the sum over the user's m_u features f of V_f / sqrt(m_u) is added before `act`; features
  /// are always normalized, separately, and never dropped.
  virtual void sparse_linear(const Batch& batch, const Parameters& parameters, Layer layer, Activation act,
                             InputScaling scaling, const StepState& step, const SideFeatures* side,
                             Matrix& output) = 0;
  /// In a fused update, may update the rows of items that no user of the batch keeps, whose gradient is zero,
  /// beside the operations that follow; sparse_linear_backward() of the same table then leaves them out. Both
  /// must be called in this step, with the same batch and scaling, and in between only sparse_linear() with
  /// these may read the table. Ends with the step at the latest. On a CPU, does nothing.
  virtual void update_unused_rows(const Batch& /*batch*/, Layer /*layer*/, InputScaling /*scaling*/,
                                  const Backward& /*backward*/) {}
  /// output = act(input W + bias).
  virtual void linear(const Matrix& input, const Parameters& parameters, Layer layer, Activation act,
                      Matrix& output) = 0;
  /// z (B, L) = mu + eps * exp(logvar / 2) from statistics (B, 2L) = [mu | logvar], eps ~ N(0, 1) by Philox.
  virtual void sample_latent(const Batch& batch, const Matrix& statistics, const StepState& step,
                             Matrix& z) = 0;
  /// linear() without activation, and sample_latent() of its output, which only the operations
  /// latent_backward() and read_matrix() may read.
  virtual void linear_and_sample(const Matrix& input, const Parameters& parameters, Layer layer,
                                 const Batch& batch, const StepState& step, Matrix& statistics,
                                 Matrix& z) = 0;
  /// z = mu, for scoring.
  virtual void latent_mean(const Matrix& statistics, Matrix& z) = 0;
  /// A layer with skips (Shenbin et al., WSDM 2020) after its product s, with the sum R of the layers before:
  ///   s += R;  h = LN(swish(s)) gain + offset;  R += h
  /// LN normalizes each row by its mean and biased variance (math::row_norm). `first`: R counts as 0.
  virtual void swish_norm(Matrix& s, const Parameters& parameters, Norm norm, bool first, Matrix& sum,
                          Matrix& h) = 0;

  // Loss and backward pass. In fp16, all gradients include the loss scale.

  /// The output layer with loss and gradients, one operation because (B, I) need not be stored as a whole:
  /// logits = hidden W + bias. Adds to the step's nll the multinomial loss, - sum x_ui log softmax_i, or, for
  /// outputs o = sigmoid(logits), the mean of (o_i - x_i)^2 over all items, where x is 0 or 1; writes the
  /// gradients with respect to `hidden`, W and bias. With a fused update, d_hidden is computed with the
  /// weights before the update, which may still run until end_step() or synchronize().
  /// OutputGradients::hidden (for passes that update the encoder) computes d_hidden only, and uses nothing of
  /// `backward` but parameters and step. OutputGradients::weights (for those that update the decoder) leaves
  /// d_hidden as it is. Both require the multinomial loss.
  virtual void output_layer_step(Loss loss, const Matrix& hidden, const Batch& batch, Layer layer,
                                 OutputGradients which, Matrix& d_hidden, const Backward& backward) = 0;
  /// Replaces d_output, the gradient with respect to the output, by that with respect to act's argument (its
  /// 16-bit copy alone, if there is one), and writes dW, dbias and, unless null, d_input: the gradient with
  /// respect to the input, plus `added_to_input` (may be null).
  virtual void linear_backward(const Matrix& input, Layer layer, Activation act, const Matrix& output,
                               Matrix& d_output, Matrix* d_input, const Matrix* added_to_input,
                               const Backward& backward) = 0;
  /// d_statistics (B, 2L) from d_z (B, L), plus the gradient of beta * KL; adds to the step's kl.
  virtual void latent_backward(const Batch& batch, const Matrix& statistics, const Matrix& d_z,
                               Matrix& d_statistics, StepState& step) = 0;
  /// latent_backward() with the composite prior, given the statistics of the old encoder. The KL term
  /// log q(z) - log p(z) is that of the sample z (math/composite_prior.hpp). Its weight for user u is
  /// beta + gamma n_u.
  virtual void composite_latent_backward(const Batch& batch, const Matrix& statistics,
                                         const Matrix& old_statistics, const math::CompositePrior& prior,
                                         float gamma, const Matrix& d_z, Matrix& d_statistics,
                                         StepState& step) = 0;
  /// Replaces the gradient of h by that of s, adds it to `sum` (`first`: copies it), and writes the gradients
  /// of gain and offset. The contents of s are lost.
  virtual void swish_norm_backward(Matrix& s, Norm norm, bool first, Matrix& d_h, Matrix& sum,
                                   const Backward& backward) = 0;
  /// The weight gradient of sparse_linear(), as a segment reduction over the batch's transpose, without
  /// atomics; rows of items without users in the batch become zero. Replaces d_output as linear_backward()
  /// does. A fused update updates the weight alone: every rank has the bias, whose gradient must be summed
  /// over ranks and is reported first.
  virtual void sparse_linear_backward(const Batch& batch, Layer layer, Activation act, InputScaling scaling,
                                      const Matrix& output, Matrix& d_output, const Backward& backward) = 0;
  /// The gradient of the feature table, never fused, from the gradient before the activation that
  /// sparse_linear_backward() wrote.
  virtual void side_features_backward(const SideFeatures& side, const Matrix& d_before,
                                      const Backward& backward) = 0;

  // The table of item vectors (Vancura et al., RecSys 2022), a tensor of kind item_table; sparse_linear() and
  // the scoring operations accept it.

  /// Writes A, the rows of W divided by their L2 norms, to tensor `table` of `normalized` and its copies; W
  /// is tensor `tensor` of `parameters`.
  virtual void normalize_rows(const Parameters& parameters, int tensor, Parameters& normalized,
                              int table) = 0;
  /// gram = A'A (r, r) of this rank's rows.
  virtual void table_gram(const Parameters& normalized, int table, Matrix& gram) = 0;
  /// Takes h (B, r) and A'A, which it adds over the model-parallel group, in the order of item slices. Adds
  /// the loss (cosine_loss in math/loss.hpp) to the step's nll, and writes the gradient with respect to h and
  /// S (r, r), twice that with respect to A'A, which is symmetric and the sum over all users.
  virtual void cosine_step(const Matrix& hidden, const Batch& batch, const Matrix& gram, Matrix& d_hidden,
                           Matrix& d_gram, StepState& step) = 0;
  /// On entry, W's range of the flat gradient is the gradient with respect to A through h. Adds A S, and
  /// turns the sum into the gradient with respect to W, in place; row ranges are reported as soon as they are
  /// complete.
  virtual void normalize_rows_backward(int tensor, const Parameters& normalized, int table,
                                       const Matrix& d_gram, const Backward& backward) = 0;

  // The optimizer.

  /// Returns whether operations of the backward pass can update tensors of items.
  virtual bool fuses_updates() const = 0;
  /// Applies the step's rule to flat elements, each range within one tensor, and updates their copies.
  virtual void update(std::span<const UpdateRange> ranges, const Buffer& gradients, Moments moments,
                      Parameters& parameters, const StepState& step) = 0;
  /// Returns sum w^2 of a tensor in fp64, for the loss term of weight decay. Blocks.
  virtual double sum_of_squares(const Parameters& parameters, int tensor) = 0;

  // Scoring. The items of a user's batch row are masked. In a model-parallel group, targets are
  // those of all users of the batch, the same on all ranks; their columns and all resulting items are items
  // of the model, not of the item slice. Results are those of this rank's users: the positions of their
  // targets among all items (rank_targets), and their lists (top_k).

  /// Writes the rank of each entry of rows `rows` of `targets`, which are the users of `batch`, to its place
  /// in `ranks` of all entries: the number of unmasked items that rank ahead of it, higher score first, then
  /// lower item. A target that is itself masked gets rank I.
  virtual void rank_targets(const Matrix& hidden, const Batch& batch, const UserRows& targets, Range rows,
                            const Parameters& parameters, Layer layer, TargetRanks& ranks) = 0;
  /// Returns all ranks. Blocks.
  virtual std::vector<std::int32_t> read_ranks(TargetRanks& ranks) = 0;
  /// Writes the k best items of each user and their scores, (B, k) each, best first; the lower item wins
  /// ties. If fewer than k are left, the remaining entries are item -1 and score -infinity.
  virtual void top_k(const Matrix& hidden, const Batch& batch, const Parameters& parameters, Layer layer,
                     int k, std::span<std::int32_t> items, std::span<float> scores) = 0;

  // Solved models.

  /// Makes a matrix of the rows that `read_rows(begin, end, out)` writes, row-major. Returns null if this
  /// device leaves such scores to the host: a CPU, or a GPU whose memory does not suffice.
  virtual std::unique_ptr<ItemMatrix> make_item_matrix(
      std::int64_t items,
      const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows) = 0;
  /// Returns the solver of this device; null if such matrices are inverted on the host, as by a CPU.
  virtual Solver* solver() = 0;
};

/// Makes the device that `options` select. Throws InputError with the reason if it is not available.
std::unique_ptr<Device> make_device(const BackendOptions& options);

}  // namespace vaecf::device
