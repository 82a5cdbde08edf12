#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/device/parameters.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/device/update_rule.hpp>
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

enum class Activation { identity, tanh };

/// Notified as soon as a flat range of the gradient is complete, in the order of ParameterLayout: the output
/// layer's weight comes in several row ranges, so that its reduction can start while backward goes on.
using GradientReady = std::function<void(Range flat, Completion)>;

/// Dropout: the probabilities with which input is kept. Each of a user's items is kept with probability
/// `items`, and its value divided by it; a user's whole history is kept, as it is, with probability
/// `history`, so that the model meets users of whom only features are known. 1: no dropout.
struct Keep {
  Keep(float of_items, float of_histories = 1.0F) : items(of_items), history(of_histories) {}
  float items;
  float history;
};

/// Both moments of the optimizer: flat like the weights, or, if ranks share the update, only those of this
/// rank's elements, back to back. Element i of the weights has moments i + offset; offsets are multiples
/// of 64.
template <class Buffer>
struct Moments {
  Buffer& first;
  Buffer& second;
  std::int64_t offset = 0;
};

/// Lets an operation that computes a layer's weight gradient apply the step's rule to that layer at once,
/// while the gradient is in cache. The layer's ranges of the gradient buffer then mean nothing, and nothing
/// is reported as ready.
template <class Parameters, class Buffer>
struct FusedUpdate {
  Parameters& parameters;
  Buffer& first_moment;
  Buffer& second_moment;
};

/// Features of users: a batch of the same users' rows of other columns, and the tensor (columns, width) that
/// has a row for each column.
template <class Batch>
struct SideInput {
  const Batch& batch;
  int table = -1;
};

/// A device that computes: the operations of a training step and of scoring on whole batches, B users at a
/// time. It is not a tensor library; each device fuses within an operation as its hardware likes. Every
/// operation accepts 0 rows. Gradients are sums over users, written (not accumulated) into a flat buffer of
/// layout.size elements. On a GPU operations are put into one queue, and the host waits only where the text
/// says so; on a CPU they are done when they return.
///
/// A device owns these types, which all make_* functions return as std::unique_ptr:
///   Buffer         flat memory of floats, zeroed: data(), size()
///   NarrowBuffer   the same of bf16 numbers on their way between ranks
///   Parameters     weights: layout(), fp32 master() in the flat layout, and the 16-bit copies of a device
///   Activations    rows() by columns() of the batch in work, in the device's own storage format
///   UserRows       users' item lists, a shard or held-out users: rows(), and description() for the log
///   BatchOrder     which rows make which batch of an epoch: batches(), users(batch)
///   Batch          X (B, I) and its transpose: users()
///   StepState      a step's numbers, its losses and the loss scale, kept where the device computes
///   MetricTotals   sums of ranking metrics over users
///   Graph          operations that ran once and can run again on what the step state then holds
///   Stopwatch      mark(): a time that is reached when all operations so far are done, never part of a
///                  graph; read(): seconds from each mark to the next, waits for the last and forgets them
///                  all; last(): when the last mark of the last read() was reached, by the host's clock
///
/// Formulas: Liang et al., "Variational Autoencoders for Collaborative Filtering", WWW 2018, sections 2, 3.
template <class D>
concept Device = requires(
    D& device, const D& idle, typename D::Buffer& buffer, const typename D::Buffer& values,
    typename D::NarrowBuffer& narrow, typename D::Parameters& weights, const typename D::Parameters& fixed,
    typename D::Activations& out, const typename D::Activations& in, typename D::Activations& gradient,
    const typename D::UserRows& rows, typename D::BatchOrder& order, typename D::Batch& into,
    const typename D::Batch& batch, typename D::StepState& step, typename D::MetricTotals& totals,
    typename D::Graph& graph, typename D::Stopwatch& stopwatch, const ParameterLayout& layout,
    const GradientReady& ready, const SideInput<typename D::Batch>* side,
    const FusedUpdate<typename D::Parameters, typename D::Buffer>* fused, Moments<typename D::Buffer> moments,
    Layer layer, Activation act, Keep keep, Range range, std::int64_t count, Completion done,
    std::span<const TensorSpec> tensors, CsrView csr, std::span<const std::int64_t> numbers,
    std::span<const float> logical, std::span<float> result, std::span<std::int32_t> items,
    std::span<const math::Metric> metrics) {
  // Facts. description() is one line for the log: device, threads, precision and kernels. device() is "cpu"
  // or "cuda"; device_id() tells this device from all others ("GPU-..."), empty if ranks may share it.
  // precision() is resolved, never `automatic`. peak_device_bytes() is the largest use of device memory so
  // far; 0 on the CPU.
  { idle.description() } -> std::same_as<std::string>;
  { idle.device() } -> std::same_as<std::string>;
  { idle.device_id() } -> std::same_as<std::string>;
  { idle.precision() } -> std::same_as<Precision>;
  { idle.threads() } -> std::same_as<int>;
  { idle.peak_device_bytes() } -> std::same_as<std::int64_t>;
  // The device's rates, measured now: GFLOP/s of a large product, fp32 or bf16 as the device computes, and
  // GB/s read and written by copies of more than caches hold.
  { device.measure_gemm_rate() } -> std::same_as<double>;
  { device.measure_memory_rate() } -> std::same_as<double>;

  // Memory. plan_parameters() lays out tensors given in the order in which backward completes them. The
  // master buffer has room for `count` elements at least, zeros behind the layout's. hold_rows() keeps rows
  // whose first is user number `count` of its set, of so many items; on the CPU the memory behind the view
  // must outlive the result.
  { idle.plan_parameters(tensors) } -> std::same_as<ParameterLayout>;
  { device.make_parameters(layout, count) } -> std::same_as<std::unique_ptr<typename D::Parameters>>;
  { device.make_buffer(count) } -> std::same_as<std::unique_ptr<typename D::Buffer>>;
  { device.make_narrow_buffer(count) } -> std::same_as<std::unique_ptr<typename D::NarrowBuffer>>;
  { device.make_activations(count, count) } -> std::same_as<std::unique_ptr<typename D::Activations>>;
  { device.make_batch() } -> std::same_as<std::unique_ptr<typename D::Batch>>;
  { device.hold_rows(csr, count, count) } -> std::same_as<std::unique_ptr<typename D::UserRows>>;
  { device.make_batch_order() } -> std::same_as<std::unique_ptr<typename D::BatchOrder>>;
  { device.make_step_state() } -> std::same_as<std::unique_ptr<typename D::StepState>>;
  { device.make_metric_totals(metrics.size()) } -> std::same_as<std::unique_ptr<typename D::MetricTotals>>;
  { device.make_stopwatch() } -> std::same_as<std::unique_ptr<typename D::Stopwatch>>;
  device.fill(buffer, 0.0F);
  // Elements `range` become elements from `count` on of the last argument: rounded to bf16, and back, and as
  // they are.
  device.narrow(values, range, narrow, count);
  device.widen(narrow, range, buffer, count);
  device.copy(values, range, buffer, count);
  // Logical rows `range` of a tensor, row-major and unpadded, into or out of a flat buffer in `layout`. These
  // two wait, and are the only ones that know both layouts.
  device.import_rows(layout, 0, range, logical, buffer);
  idle.export_rows(layout, 0, range, values, result);
  // Must follow any write to master() that update() did not do: renews the 16-bit copies, of all elements or
  // of a range.
  device.weights_changed(weights);
  device.weights_changed(weights, range);

  // The queue. synchronize() waits until all operations are done; throws RunError if the device failed.
  // mark() is the point reached so far, for another queue to wait for; operations after wait_for() wait for
  // another's.
  device.synchronize();
  { device.mark() } -> std::same_as<Completion>;
  device.wait_for(done);
  // record() runs work that calls operations and nothing that waits, and returns its graph; null if this
  // device does not record: then the work ran all the same. The work may be called twice on the host, though
  // what it asks for runs once. fits() is false if memory that a graph uses has moved since; replay() then
  // returns false, and nothing ran.
  { device.record(std::function<void()>()) } -> std::same_as<std::unique_ptr<typename D::Graph>>;
  { idle.fits(graph) } -> std::same_as<bool>;
  { device.replay(graph) } -> std::same_as<bool>;

  // The step. begin_step() gives the operations that follow their numbers, and is never part of a graph.
  // inspect_gradients() looks at elements `range` before any weight changes, and adds to verdict(step), which
  // begin_step() set to 0: in fp16 the number of elements that are not finite, and, if the rule clips, the
  // squares of the elements as update() scales them. If ranks look at different elements, the caller sums the
  // verdicts over ranks. verdict() has two elements: the number of overflows, above 0 of which update() does
  // nothing, and the sum of squares. end_step() adds the step's losses to the sums, or counts it as skipped,
  // and moves the loss scale on.
  device.begin_step(StepNumbers(), step);
  device.inspect_gradients(values, range, step);
  { device.verdict(step) } -> std::same_as<typename D::Buffer&>;
  device.end_step(step);
  // Sums of losses: clear, or set to what the next steps add to, as after a resume within an epoch; no step
  // is broken any more. read_losses() waits for the steps ended so far; poll_losses() does not wait, and is a
  // look at some recent past, at least as new as that of the call before, or nothing.
  device.clear_losses(step);
  device.set_losses(LossSums(), step);
  { device.read_losses(step) } -> std::same_as<LossSums>;
  { device.poll_losses(step) } -> std::same_as<std::optional<LossSums>>;
  { device.loss_scale(step) } -> std::same_as<LossScale>;
  device.set_loss_scale(LossScale(), step);

  // The batch. Batch t of an order is numbers[begin[t] .. begin[t + 1]), local rows of `rows`. gather_step()
  // takes the batch that `step` numbers, of `count` = order.users(that number) rows, with its transpose.
  // gather_batch() takes the rows given, with the transpose if its loss or gradients are wanted.
  device.set_batch_order(rows, numbers, numbers, order);
  device.gather_step(rows, order, step, count, into);
  device.gather_batch(rows, numbers, true, into);

  // Forward. encode_input(): output = act(bias + sum over the user's items i of s_ui W_i),
  // s_ui = dropout_ui / sqrt(n_u): rows are L2-normalized, then dropped out. With `side` (may be null) the
  // sum over the user's m_u features f of V_f / sqrt(m_u) is added before `act`; features are normalized on
  // their own and never dropped out. linear(): output = act(input W + bias). sample_latent(): statistics
  // (B, 2L) = [mu | logvar] give z (B, L) = mu + eps * exp(logvar / 2), eps ~ N(0, 1) by Philox.
  // latent_mean(): z = mu, for scoring.
  device.encode_input(batch, fixed, layer, act, keep, step, out, side);
  device.linear(in, fixed, layer, act, out);
  device.sample_latent(batch, in, step, out);
  device.latent_mean(in, out);

  // Loss and backward. softmax_layer_step() is the output layer with its loss, one operation because (B, I)
  // need never exist as a whole: logits = hidden W + bias; the step's nll is increased; `gradient` becomes
  // that of `hidden`; gradients of W and bias are written, or with `fused` (only if fuses_updates() and the
  // rule does not clip; may be null) W and bias are updated, `gradient` still by the weights before. In fp16
  // all gradients from here on carry the loss scale. Row ranges of dW go to `ready` as soon as they are
  // complete. linear_backward() turns `gradient` (of the layer's output) in place into that before `act`, and
  // writes dW, dbias, and the input's gradient unless it is null. latent_backward(): d_statistics (B, 2L)
  // from d_z (B, L), with the gradient of beta * KL added; the step's kl is increased. input_gradient() is
  // the weight gradient of encode_input(): a segment reduction over the batch's transpose, without atomics;
  // rows of items that no user of the batch has become zero. side_gradient(): that of a table of features,
  // from the gradient before the activation that input_gradient() has left; never fused.
  device.softmax_layer_step(in, batch, fixed, layer, step, gradient, buffer, ready, fused);
  { idle.fuses_updates() } -> std::same_as<bool>;
  device.linear_backward(in, fixed, layer, act, in, gradient, &out, buffer, ready);
  device.latent_backward(batch, in, step, in, gradient);
  device.input_gradient(batch, layout, layer, act, keep, step, in, gradient, buffer, ready, fused);
  device.side_gradient(*side, layout, in, buffer, ready);

  // The optimizer. update() applies the step's rule, without its decay unless told, to the flat elements of
  // `range`, which lie within one tensor, and renews the copies. sum_of_squares(): of one tensor, fp64: the
  // loss term of weight decay; waits.
  device.update(step, true, range, values, moments, weights);
  { device.sum_of_squares(fixed, 0) } -> std::same_as<double>;

  // Scoring: items of a user's own batch row are masked. rank_held_out(): for each entry of `csr` (rows as in
  // `batch`) how many unmasked items beat it, higher score first, then lower item; a target that is itself
  // masked gets I. add_metrics() makes such ranks of rows `range` of `rows` into metrics and adds them up on
  // the spot; users without a target are left out. read_metrics(): one sum per metric; waits. top_k(): the k
  // best items of each user, best first, ties to the lower item, and their scores, (B, k) each; if fewer than
  // k are left, item -1 and score -inf.
  device.rank_held_out(in, batch, csr, fixed, layer, items);
  device.add_metrics(in, batch, rows, range, fixed, layer, metrics, totals);
  { device.read_metrics(totals) } -> std::same_as<std::vector<math::MetricSums>>;
  device.top_k(in, batch, fixed, layer, 1, items, result);

  // Activations to and from the host as (rows, columns) row-major fp32; for tests and small results.
  device.write_activations(out, count, logical);
  idle.read_activations(in, result);
  { stopwatch.read() } -> std::same_as<std::vector<double>>;
  { stopwatch.last() } -> std::same_as<std::chrono::steady_clock::time_point>;
  stopwatch.mark();
};

}  // namespace vaecf::device
