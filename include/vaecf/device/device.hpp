#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/item_slices.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/device/parameters.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/device/update_rule.hpp>
#include <vaecf/math/composite_prior.hpp>
#include <vaecf/math/metrics.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::device {

/// The gradients that softmax_layer_step() computes: of the hidden units, of the layer's weights, or both.
enum class SoftmaxGradients { both, hidden, weights };

/// Called as soon as a flat range of the gradient is complete, about in the order of ParameterLayout. The
/// output layer's weight arrives in several row ranges, so that its reduction overlaps with the backward
/// pass.
using GradientReady = std::function<void(Range flat, EventHandle)>;

/// Keep probabilities of input dropout; 1: no dropout. Each item of a user is kept with probability
/// `item_keep_prob`, and its value is divided by `item_keep_prob`. The interactions of a user are all dropped
/// with probability 1 - `history_keep_prob`, so that the model learns to use features alone; they are not
/// rescaled. Unless `normalized` is set, the input is the binary row itself, without L2 normalization.
struct InputDropout {
  InputDropout(float item_probability, float history_probability = 1.0F, bool normalizes = true)
      : item_keep_prob(item_probability), history_keep_prob(history_probability), normalized(normalizes) {}
  float item_keep_prob;
  float history_keep_prob;
  bool normalized;
};

/// Both moments of the optimizer: flat like the weights or, if the update is sharded over ranks, only this
/// rank's elements, packed. The moments of weight i are at i + offset; offsets are multiples of 64.
template <class Buffer>
struct Moments {
  Buffer& first;
  Buffer& second;
  std::int64_t offset = 0;
};

/// Lets an operation that computes a layer's weight gradient update that layer immediately, while the
/// gradient is in cache, or beside later operations. The layer's ranges of the gradient buffer are then
/// undefined and are not reported as ready.
template <class Parameters, class Buffer>
struct FusedUpdate {
  Parameters& parameters;
  Buffer& first_moment;
  Buffer& second_moment;
};

/// Features of a batch of users: the users' rows of the feature matrix, and the index of the tensor
/// (features, width) with one row per feature.
template <class Batch>
struct SideFeatures {
  const Batch& batch;
  int table = -1;
};

/// The operations of training and scoring, on whole batches of B users. Not a tensor library: each device
/// fuses steps within an operation as its hardware requires. Every operation accepts 0 rows. Gradients are
/// sums over users; they are written to (not accumulated in) a flat buffer of layout.size elements. If a
/// group of ranks shares the items, each has the rows of the group's B users in its slice, and the
/// activations of its own users: row r of all activations belongs to user batch.own().begin + r. Operations
/// on tensors of items exchange activations within the group and are then collective; counts of a user's
/// items are those of all slices, and a user's losses are summed over the ranks of the group. On a GPU,
/// operations are queued on one stream, and the host blocks only where stated. On a CPU, they have finished
/// when they return.
///
/// A device defines these types; all make_* functions return them as std::unique_ptr:
///   Buffer             flat, zero-initialized memory of floats: data(), size()
///   Bf16Buffer         flat, zero-initialized memory of bf16 values, for communication in bf16
///   Parameters         weights: layout(), fp32 master() in the flat layout, and the device's 16-bit copies
///   Activations        rows() by columns() values of the current batch, in the device's storage format
///   UserRows           sparse rows of training or held-out users: rows(), and description() for the log
///   BatchSchedule      row indices of every batch of an epoch: batches(), users(batch)
///   Batch              X (B, I) and its transpose: users() B, slices() the group of ranks that share it,
///                      own() the users whose activations this rank has
///   StepState          a step's parameters, its losses and the loss scale, in device memory
///   MetricValues       ranking metrics of users
///   Graph              captured operations, which replay() runs on the current contents of the step state
///   DeviceTimer        record() adds a time stamp, taken when all earlier operations are done; not during
///                      capture. elapsed() waits for the last one, returns the seconds between consecutive
///                      time stamps and removes all. last_record_time() returns the last one of the previous
///                      elapsed() on the host's clock.
///
/// Formulas: Liang et al., "Variational Autoencoders for Collaborative Filtering", WWW 2018, sections 2, 3.
template <class D>
concept Device = requires(
    D& device, const D& idle, typename D::Buffer& buffer, const typename D::Buffer& values,
    typename D::Bf16Buffer& bf16, typename D::Parameters& weights, const typename D::Parameters& fixed,
    typename D::Activations& out, const typename D::Activations& in, typename D::Activations& gradient,
    const typename D::UserRows& rows, typename D::BatchSchedule& schedule, typename D::Batch& into,
    const typename D::Batch& batch, typename D::StepState& step, typename D::MetricValues& of_users,
    typename D::Graph& graph, typename D::DeviceTimer& timer, const ParameterLayout& layout,
    const GradientReady& ready, const SideFeatures<typename D::Batch>* side,
    const FusedUpdate<typename D::Parameters, typename D::Buffer>* fused, Moments<typename D::Buffer> moments,
    Layer layer, Norm norm, Activation act, InputDropout input_dropout, Range range, std::int64_t count,
    typename D::Activations& sum, SoftmaxGradients which, math::CompositePrior prior, EventHandle done,
    std::span<const TensorSpec> tensors, CsrView csr, std::span<const std::int64_t> numbers,
    std::span<const float> logical, std::span<float> result, std::span<std::int32_t> items,
    std::span<const math::Metric> metrics, ItemSlices& slices) {
  // Properties. description() is one line for the log: device, threads, precision and kernels. device() is
  // "cpu" or "cuda". device_id() identifies this device ("GPU-..."); it is empty if ranks may share the
  // device. precision() is the resolved precision, never `automatic`. peak_device_bytes() is the peak use of
  // device memory so far; 0 on the CPU.
  { idle.description() } -> std::same_as<std::string>;
  { idle.device() } -> std::same_as<std::string>;
  { idle.device_id() } -> std::same_as<std::string>;
  { idle.precision() } -> std::same_as<Precision>;
  { idle.threads() } -> std::same_as<int>;
  { idle.peak_device_bytes() } -> std::same_as<std::int64_t>;
  // Measured peak performance: GFLOP/s of a large matrix product in the device's precision (fp32 or bf16),
  // and GB/s read and written by copies that exceed the caches, unless they would need more than `count`
  // bytes of the host's memory. A GPU uses at most half of its own free memory.
  { device.measure_gemm_rate(count) } -> std::same_as<double>;
  { device.measure_memory_rate(count) } -> std::same_as<double>;

  // Memory. plan_parameters() takes the tensors in the order in which the backward pass completes them. The
  // master buffer has at least `count` elements; those after the layout's are zero. make_user_rows() stores
  // rows of the slice that `slices` has of `count` columns (third argument); the first row is user `count`
  // (second argument) of its set. On the CPU, the memory behind the view must outlive the result. `slices` is
  // optional and must outlive the result.
  { idle.plan_parameters(tensors) } -> std::same_as<ParameterLayout>;
  { device.make_parameters(layout, count) } -> std::same_as<std::unique_ptr<typename D::Parameters>>;
  { device.make_buffer(count) } -> std::same_as<std::unique_ptr<typename D::Buffer>>;
  { device.make_bf16_buffer(count) } -> std::same_as<std::unique_ptr<typename D::Bf16Buffer>>;
  { device.make_activations(count, count) } -> std::same_as<std::unique_ptr<typename D::Activations>>;
  { device.make_batch() } -> std::same_as<std::unique_ptr<typename D::Batch>>;
  {
    device.make_user_rows(SlicedRows(csr), count, count, slices)
    } -> std::same_as<std::unique_ptr<typename D::UserRows>>;
  { batch.slices() } -> std::same_as<ItemSlices&>;
  { batch.own() } -> std::same_as<Range>;
  { device.make_batch_schedule() } -> std::same_as<std::unique_ptr<typename D::BatchSchedule>>;
  { device.make_step_state() } -> std::same_as<std::unique_ptr<typename D::StepState>>;
  { device.make_metric_values(metrics.size(), 1) } -> std::same_as<std::unique_ptr<typename D::MetricValues>>;
  { device.make_timer() } -> std::same_as<std::unique_ptr<typename D::DeviceTimer>>;
  device.fill(buffer, 0.0F);
  // cast_to_bf16(), cast_to_fp32() and copy() write elements `range` of the first argument to the third,
  // starting at `count`. cast_to_bf16() rounds to nearest even.
  device.cast_to_bf16(values, range, bf16, count);
  device.cast_to_fp32(bf16, range, buffer, count);
  device.copy(values, range, buffer, count);
  // import_rows() and export_rows() copy logical rows `range` of a tensor, row-major and without padding, to
  // or from a flat buffer in `layout`. Both block until the copy has finished.
  device.import_rows(layout, 0, range, logical, buffer);
  idle.export_rows(layout, 0, range, values, result);
  // make_exporter() makes an export_rows() that one other thread may call while the device works. It waits
  // for the events passed to its wait_event(). spare_bytes() is the memory for more buffers of make_buffer();
  // some of the free memory is kept for operations.
  { device.make_exporter() } -> std::same_as<std::unique_ptr<typename D::Exporter>>;
  { idle.spare_bytes() } -> std::same_as<std::int64_t>;
  // refresh_weight_copies() updates the 16-bit copies of all elements or of a range. Must be called after
  // every write to master() except by update().
  device.refresh_weight_copies(weights);
  device.refresh_weight_copies(weights, range);

  // The stream. synchronize() blocks until all operations are done; throws RunError if the device failed.
  // record_event() returns the point reached so far, for other streams to wait for. Operations after
  // wait_event() start only once `done` is reached.
  device.synchronize();
  { device.record_event() } -> std::same_as<EventHandle>;
  device.wait_event(done);
  // capture() calls the function, which must call only operations that do not block, and captures them as a
  // graph. If the device does not support capture, the operations run as usual and the result is null. The
  // function may be called twice, but its operations run only once. is_valid() returns false if memory that a
  // graph uses was reallocated since; replay() then returns false without running anything.
  { device.capture(std::function<void()>()) } -> std::same_as<std::unique_ptr<typename D::Graph>>;
  { idle.is_valid(graph) } -> std::same_as<bool>;
  { device.replay(graph) } -> std::same_as<bool>;

  // The step. begin_step() sets the parameters of the operations that follow, and is never part of a graph.
  // accumulate_gradient_stats() must precede any weight update; it adds the statistics of gradient elements
  // `range` to gradient_stats(step), which begin_step() set to 0. gradient_stats() has two elements. The
  // first is the number of non-finite elements, counted in fp16 only; if it is not 0, update() does nothing.
  // The second is the sum of squares, scaled as in update(), computed only if the rule clips. If ranks pass
  // different ranges, the caller must all-reduce gradient_stats(step). end_step() adds the step's losses to
  // the sums, or counts the step as skipped, and updates the loss scale.
  device.begin_step(StepParams(), step);
  device.accumulate_gradient_stats(values, range, step);
  { device.gradient_stats(step) } -> std::same_as<typename D::Buffer&>;
  device.end_step(step);
  // Sums of losses. clear_losses() sets them to 0, set_losses() to given values, as after a resume within an
  // epoch; both remove the record of a non-finite step. read_losses() blocks until the steps ended so far
  // have finished. poll_losses() does not block; it returns a recent state, never older than that of the
  // previous call, or nullopt.
  device.clear_losses(step);
  device.set_losses(LossSums(), step);
  { device.read_losses(step) } -> std::same_as<LossSums>;
  { device.poll_losses(step) } -> std::same_as<std::optional<LossSums>>;
  { device.loss_scale(step) } -> std::same_as<LossScale>;
  device.set_loss_scale(LossScale(), step);

  // The batch. Batch t of an order consists of rows numbers[begin[t] .. begin[t + 1]) of `rows`.
  // upload_batch_schedule() checks an order and copies it to the device, and start_batch_schedule() makes it
  // the current one; without a new order it does nothing. The first upload belongs to the device's thread.
  // Later ones of at most as many users and batches may run on another thread, during steps with the current
  // order. gather_scheduled_batch() gathers the batch that `step` selects, with its transpose; `count` must
  // be its number of users. gather_batch() gathers the given rows, with the transpose if losses or gradients
  // are needed.
  device.upload_batch_schedule(rows, numbers, numbers, schedule);
  device.start_batch_schedule(rows, schedule);
  device.gather_scheduled_batch(rows, schedule, step, count, into);
  device.gather_batch(rows, numbers, true, into);

  // Forward pass. sparse_linear(): output = act(bias + sum over the user's items i of s_ui W_i) with s_ui =
  // dropout_ui / sqrt(n_u): rows are L2-normalized before dropout, unless InputDropout says that they are
  // not (s_ui = dropout_ui). With `side` (may be null), the sum over the user's m_u features f of V_f /
  // sqrt(m_u) is added before `act`; features are always normalized, separately, and never dropped. linear():
  // output = act(input W + bias). sample_latent(): z (B, L) = mu + eps * exp(logvar / 2) from statistics (B,
  // 2L) = [mu | logvar], eps ~ N(0, 1) by Philox. linear_and_sample() is linear() without activation, and
  // sample_latent() of its output, which only latent_backward() and read_activations() may read.
  // latent_mean(): z = mu, for scoring. swish_norm() is a layer of RecVAE (Shenbin et al., WSDM 2020) after
  // its product s, with the sum R of the layers before it:
  //   s += R;  h = LN(swish(s)) gain + offset;  R += h
  // LN normalizes each row by its mean and biased variance (math/swish_norm.hpp). With `true`, R counts as 0.
  device.sparse_linear(batch, fixed, layer, act, input_dropout, step, out, side);
  device.linear(in, fixed, layer, act, out);
  device.sample_latent(batch, in, step, out);
  device.linear_and_sample(in, fixed, layer, batch, step, out, out);
  device.latent_mean(in, out);
  device.swish_norm(out, fixed, norm, true, sum, gradient);

  // Loss and backward pass. softmax_layer_step() is the output layer with loss and gradients, one operation
  // because (B, I) need not be stored as a whole: logits = hidden W + bias. It adds to the step's nll, writes
  // the gradient of `hidden` to `gradient`, and writes the gradients of W and bias. With `fused` (may be
  // null; only if fuses_updates() and the rule does not clip) it updates W and bias instead, and `gradient`
  // is that of the weights before the update; the update may run until end_step() or synchronize().
  // stores_fused_gradient() returns whether such an update of a tensor of the given kind still reads the
  // gradient from memory. Row ranges of dW are reported to `ready` as soon as they are complete. With
  // SoftmaxGradients::hidden, the gradients of W and bias are not computed: buffer, `ready` and `fused` are
  // unused. With SoftmaxGradients::weights, `gradient` is unused. squared_layer_step() is the same for
  // outputs o = sigmoid(logits) and the squared error: it adds to the step's nll the sum over users of the
  // mean of (o_i - x_i)^2 over all items. In fp16, all gradients from here on include the loss scale.
  // linear_backward() replaces the gradient of the layer's output by that before `act`, and writes dW, dbias
  // and, unless null, the gradient of the input plus the last argument (may be null). latent_backward()
  // computes d_statistics (B, 2L) from d_z (B, L), adds the gradient of beta
  // * KL, and adds to the step's kl. sparse_linear_backward() computes the weight gradient of sparse_linear()
  // as a segment reduction over the batch's transpose, without atomics; rows of items without users in the
  // batch become zero. With `fused`, it updates the weight alone: the bias belongs to the own users, whose
  // gradient is summed over ranks. Its range is reported before those of the weight. side_features_backward()
  // computes the gradient of the feature table, never fused, from the gradient before the activation that
  // sparse_linear_backward() wrote.
  //
  // RecVAE: composite_latent_backward() is latent_backward() with the composite prior. Arguments are the
  // statistics, those of the old encoder (B, 2L), the prior, and gamma. The KL term log q(z) - log p(z) is
  // that of the sample z (math/composite_prior.hpp). Its weight for user u is beta + gamma n_u; n_u is the
  // number of the user's items in the batch, before dropout. swish_norm_backward() replaces the gradient of h
  // by that of s, adds it to `sum` (with `true`: copies it), and writes the gradients of gain and offset. The
  // contents of s are lost.
  device.softmax_layer_step(in, batch, fixed, layer, step, gradient, buffer, ready, fused, which);
  device.squared_layer_step(in, batch, fixed, layer, step, gradient, buffer, ready, fused);
  { idle.fuses_updates() } -> std::same_as<bool>;
  { idle.stores_fused_gradient(TensorKind::input_table) } -> std::same_as<bool>;
  device.linear_backward(in, fixed, layer, act, in, gradient, &out, buffer, ready, &in);
  device.latent_backward(batch, in, step, in, gradient);
  device.composite_latent_backward(batch, in, in, prior, 0.005F, step, in, gradient);
  device.swish_norm_backward(out, fixed, norm, true, gradient, sum, buffer, ready);
  device.sparse_linear_backward(batch, layout, layer, act, input_dropout, step, in, gradient, buffer, ready,
                                fused);
  device.side_features_backward(*side, layout, in, buffer, ready);

  // The item table of ELSA: normalize_rows() writes A, the rows of an input table W divided by their L2
  // norms, to a table of kind item_table (third and fourth argument) and its copies; sparse_linear() and the
  // scoring operations accept it. table_gram() writes the Gram matrix A'A (r, r) of this rank's rows.
  // cosine_step() takes h (B, r) and that matrix, which it adds over the group, in the order of slices. It
  // adds the loss (math/cosine_loss.hpp) to the step's nll, and writes the gradients by h and twice that by
  // the Gram matrix, S (r, r), which is symmetric and the sum over all users. normalize_rows_backward()
  // expects the gradient by A through h at W's place in the flat buffer, adds A S, and replaces the sum by
  // the gradient by W; row ranges are reported to `ready` as soon as they are complete.
  device.normalize_rows(fixed, 0, weights, 0);
  device.table_gram(fixed, 0, out);
  device.cosine_step(in, batch, in, step, gradient, out);
  device.normalize_rows_backward(fixed, 0, fixed, 0, in, buffer, ready);

  // The optimizer. update() applies the step's rule to the flat elements of `range`, which must be within one
  // tensor, and updates their copies; weight decay applies only if the second argument is set. A device may
  // have update_all(), which does the same for several ranges at once.
  // sum_of_squares() returns sum w^2 of one tensor in fp64, for the loss term of weight decay; blocks.
  device.update(step, true, range, values, moments, weights);
  { device.sum_of_squares(fixed, 0) } -> std::same_as<double>;

  // Scoring; the items of a user's batch row are masked. rank_targets() writes, for each entry of `csr`
  // (rows as in `batch`), the number of unmasked items that rank ahead of it: higher score first, then lower
  // item. A target that is itself masked gets rank I. compute_metrics() computes such ranks for rows `range`
  // of `rows`, and from them columns `range` of `of_users`, (metrics, users). They start as zeros, which
  // users without targets keep. read_metrics() returns all values, row-major; blocks. evaluation_batch is a
  // number of users per batch with which these operations run at full speed. top_k() writes the k best items
  // of each user and their scores, (B, k) each, best first; the lower item wins ties. If fewer than k are
  // left, the remaining entries are item -1 and score -infinity. In a group of ranks, targets are those of
  // all users of the batch, the same on all ranks; their columns and all resulting items are items of the
  // model, not of the slice. Results are those of the own users: ranks of their targets, their columns of
  // `of_users`, and their lists.
  device.rank_targets(in, batch, csr, fixed, layer, items);
  { D::evaluation_batch } -> std::convertible_to<std::int64_t>;
  device.compute_metrics(in, batch, rows, range, fixed, layer, metrics, of_users);
  { device.read_metrics(of_users) } -> std::same_as<std::vector<double>>;
  device.top_k(in, batch, fixed, layer, 1, items, result);

  // Copy activations from and to the host as (rows, columns) row-major fp32, for tests and small results.
  device.write_activations(out, count, logical);
  idle.read_activations(in, result);
  { timer.elapsed() } -> std::same_as<std::vector<double>>;
  { timer.last_record_time() } -> std::same_as<std::chrono::steady_clock::time_point>;
  timer.record();
};

}  // namespace vaecf::device
