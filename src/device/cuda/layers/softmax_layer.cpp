#include <vaecf/device/cuda/device.hpp>
#include <vaecf/math/loss.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// One user per block: computes the loss and replaces the logits by the gradient
///   scale (N_u softmax_i - x_i),
/// with zeros in the padding. Each logit is read twice, eight at a time, and written once. The user's own
/// logits are saved before they are overwritten, so that their gradient, a possibly small difference, is
/// rounded only once.
template <class T>
struct SoftmaxOfUser {
  using Part = math::SoftmaxPart<float>;
  // With 32 registers per thread, a multiprocessor holds eight blocks: the 640 users of a chunk are one wave.
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = threads * sizeof(Part);

  T* logits;  // (users, stride) of a chunk
  std::int64_t stride;
  std::int64_t items;
  std::int64_t first_user;       // first user of the chunk in the batch
  const std::int64_t* offsets;   // offsets of the batch
  const std::int32_t* columns;   // columns of the batch
  const DeviceStepState* state;  // contains the loss scale
  double* nll;                   // (users of the batch)
  float* positive_logits;        // (entries of the batch)

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte* scratch) const {
    T* row = logits + block * stride;
    const std::int64_t user = first_user + block;
    const std::int64_t begin = offsets[user];
    const auto count = static_cast<std::int32_t>(offsets[user + 1] - begin);

    const Part softmax = softmax_of(group, row, reinterpret_cast<Part*>(scratch));
    const double own = group.sum(
        count, [&](std::int64_t k) { return static_cast<double>(to_float(row[columns[begin + k]])); });
    // One fp64 logarithm instead of 256, because many GPUs are slow in fp64.
    group.each(1, [&](std::int64_t) { nll[user] = math::nll(count, softmax, own); });
    write_gradient(group, row, softmax, begin, count);
  }

 private:
  template <class Group>
  VAECF_HD Part softmax_of(Group& group, const T* row, Part* parts) const {
    const T* const rest = row + items / 8 * 8;
    group.each(threads, [&](std::int64_t thread) {
      Part part;
      for (const T* at = row + 8 * thread; at < rest; at += 8 * threads) part.add(load_vec8(at).at);
      if (thread < items % 8) part.add(to_float(rest[thread]));
      parts[thread] = part;
    });
    const float maximum = group.max(threads, [&](std::int64_t thread) { return parts[thread].maximum; });
    const float sum =
        group.sum(threads, [&](std::int64_t thread) { return parts[thread].sum_below(maximum); });
    return {maximum, sum};
  }

  template <class Group>
  VAECF_HD void write_gradient(Group& group, T* row, const Part& softmax, std::int64_t begin,
                               std::int32_t count) const {
    group.each(count,
               [&](std::int64_t k) { positive_logits[begin + k] = to_float(row[columns[begin + k]]); });
    const float scale = state->scale.scale;
    const float factor = scale * math::softmax_scale(count, softmax);
    group.each(stride / 8, [&](std::int64_t e) {
      Vec8 x = load_vec8(row + 8 * e);
      for (int j = 0; j < 8; ++j) x.at[j] = factor * std::exp(x.at[j] - softmax.maximum);
      store_vec8(row + 8 * e, x);
    });
    group.each(stride - items, [&](std::int64_t i) { row[items + i] = from_float<T>(0.0F); });
    group.each(count, [&](std::int64_t k) {
      const float p = factor * std::exp(positive_logits[begin + k] - softmax.maximum);
      row[columns[begin + k]] = from_float<T>(p - scale);
    });
  }
};

// Logits are computed and replaced by gradients in chunks of users that fit into the L2 cache (50 MB on an
// H100): 640 users of ML-20M in 16 bits. Their 5 x 79 tiles of 128 x 256 are also exactly three waves of 132
// multiprocessors.
constexpr std::int64_t chunk_bytes = 640 * 20224 * 2;
constexpr std::int64_t chunk_step = 64;  // users
constexpr std::int64_t min_chunk = 128;  // fewer users make products inefficient
// The gradients of a slice of users are stored for the later products. More users are divided into slices,
// whose weight gradients are added. The size depends on the GPU only, not on its current load, so that sums
// keep their order from run to run.
constexpr std::int64_t slice_bytes = std::int64_t{3} << 29;
constexpr std::int64_t share_of_memory = 8;

/// Calls f(part) for `whole` in parts of `size`; the last one may be smaller.
template <class F>
void for_parts(Range whole, std::int64_t size, F&& f) {
  for (std::int64_t begin = whole.begin; begin < whole.end; begin += size) {
    f(Range{begin, std::min(begin + size, whole.end)});
  }
}

/// The output layer for one batch.
///
/// In 16-bit precisions, logits and their gradients are rounded to 16 bits. As with any product with a 16-bit
/// result, softmax then gets e^logit with a relative error of |logit| 2^-9 in bf16 and |logit| 2^-12 in fp16.
/// Everything in between is fp32, the loss fp64.
class OutputLayer {
 public:
  OutputLayer(Gpu& gpu, Stream& stream, Matmuls& matmuls, Scratch& scratch, DType dtype,
              const Activations& hidden, const Batch& batch, const Parameters& parameters,
              device::Layer layer, DeviceStepState* state)
      : stream_(stream),
        matmuls_(matmuls),
        scratch_(scratch),
        dtype_(dtype),
        hidden_(hidden),
        batch_(batch),
        items_(parameters.layout().tensors[layer.weight].spec.columns),
        stride_(parameters.layout().tensors[layer.weight].stride),
        row_bytes_(stride_ * size_of(dtype)),
        weights_(parameters.operand(layer.weight)),
        bias_(parameters.operand(layer.bias)),
        state_(state) {
    if (!batch.has_transpose) throw std::logic_error("softmax_layer_step: the batch must have its transpose");
    chunk_ = std::max(chunk_bytes / row_bytes_ / chunk_step * chunk_step, min_chunk);
    const std::int64_t memory = std::min(slice_bytes, gpu.total_bytes() / share_of_memory);
    slice_ = std::max<std::int64_t>(memory / row_bytes_ / chunk_, 1) * chunk_;
    nll_ = scratch.get<double>(Scratch::per_user, users(), "losses of the batch's users");
  }

  std::int64_t users() const { return hidden_.rows(); }

  /// Runs loss and gradients. `weights_done` is called when d_weight and d_bias are complete.
  ///
  /// The weights' gradients come first, in one product over the slice, and those of the hidden units after
  /// them, whether or not they are reduced over ranks:
  /// - The reduction of the largest tensor starts as early as possible and overlaps with all that follows.
  /// - The hidden units' product then reads the logits' gradients from memory, not from L2. But it does 1200
  ///   operations on each of them (600 hidden units), 600 per byte: twice what an H100 needs to be bound by
  ///   arithmetic rather than memory. Chunk by chunk it would be 25 tiles for 132 multiprocessors.
  /// - Dividing the weights' product into separately reported ranges would cost another wave of tiles, more
  ///   than its reduction can gain by an earlier start.
  template <class F>
  void step(Activations& d_hidden, float* d_weight, float* d_bias, F&& weights_done) {
    logits_ = logits_buffer(std::min(slice_, users()));
    const std::int64_t partials = num_partials(std::min(chunk_, users()), stride_);
    auto* partial = scratch_.get<float>(Scratch::products, partials * stride_, "sums of gradients");
    auto* positive_logits =
        scratch_.get<float>(Scratch::per_entry, std::max<std::int64_t>(batch_.max_entries, 1),
                            "logits of the batch's interactions");
    for_parts({0, users()}, slice_, [&](Range slice) {
      for_parts(slice, chunk_, [&](Range chunk) {
        std::byte* logits = logits_ + (chunk.begin - slice.begin) * row_bytes_;
        forward(chunk, logits, positive_logits);
        // A separate pass over the L2 cache: in the softmax kernel, with one user per block, partial sums
        // would take as many bytes again.
        partial_column_sums(stream_, dtype_, logits, chunk.size(), stride_, partials, chunk.begin == 0,
                            partial);
      });
      weight_gradient(slice, d_weight);
      if (slice.end == users()) {
        reduce_partials(stream_, partial, partials, stride_, d_bias);
        weights_done();
      }
      hidden_gradient(slice, d_hidden);
    });
    update_half_copy(stream_, dtype_, d_hidden);
    add_losses(stream_, nll_, users(), &state_->nll, &state_->users);
  }

 private:
  std::byte* logits_buffer(std::int64_t rows) const {
    return scratch_.get<std::byte>(Scratch::logits, rows * row_bytes_, "the logits");
  }

  const std::byte* hidden_from(std::int64_t user) const {
    return static_cast<const std::byte*>(hidden_.operand()) + user * hidden_.stride() * size_of(dtype_);
  }

  /// Computes logits and losses of `chunk`, and replaces the logits by gradients.
  void forward(Range chunk, std::byte* logits, float* positive_logits) {
    const MatmulSpec spec{.m = chunk.size(),
                          .n = stride_,
                          .k = hidden_.columns(),
                          .lda = hidden_.stride(),
                          .ldb = stride_,
                          .ldc = stride_,
                          .bias = true,
                          .operands = dtype_,
                          .result = dtype_};
    matmuls_.run(stream_, spec, hidden_from(chunk.begin), weights_, logits, bias_);
    dispatch_dtype(dtype_, [&]<class T>(T) {
      const SoftmaxOfUser<T> body{.logits = reinterpret_cast<T*>(logits),
                                  .stride = stride_,
                                  .items = items_,
                                  .first_user = chunk.begin,
                                  .offsets = batch_.offsets.data(),
                                  .columns = batch_.columns.data(),
                                  .state = state_,
                                  .nll = nll_,
                                  .positive_logits = positive_logits};
      launch(stream_, chunk.size(), body);
    });
  }

  void weight_gradient(Range slice, float* d_weight) {
    const MatmulSpec spec{.m = hidden_.columns(),
                          .n = stride_,
                          .k = slice.size(),
                          .lda = hidden_.stride(),
                          .ldb = stride_,
                          .ldc = stride_,
                          .a_transposed = true,
                          .accumulate = slice.begin > 0,
                          .operands = dtype_};
    matmuls_.run(stream_, spec, hidden_from(slice.begin), logits_, d_weight);
  }

  void hidden_gradient(Range slice, Activations& d_hidden) {
    const MatmulSpec spec{.m = slice.size(),
                          .n = hidden_.columns(),
                          .k = stride_,
                          .lda = stride_,
                          .ldb = stride_,
                          .ldc = d_hidden.stride(),
                          .b_transposed = true,
                          .operands = dtype_};
    matmuls_.run(stream_, spec, logits_, weights_, d_hidden.values() + slice.begin * d_hidden.stride());
  }

  Stream& stream_;
  Matmuls& matmuls_;
  Scratch& scratch_;
  DType dtype_;
  const Activations& hidden_;
  const Batch& batch_;
  std::int64_t items_;
  std::int64_t stride_;
  std::int64_t row_bytes_;
  const void* weights_;
  const void* bias_;
  DeviceStepState* state_;
  std::int64_t chunk_ = 0;  // users
  std::int64_t slice_ = 0;  // users: whole chunks
  double* nll_ = nullptr;   // (users)
  std::byte* logits_ = nullptr;
};

}  // namespace

void Device::softmax_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                device::Layer layer, StepState& step, Activations& d_hidden,
                                FloatBuffer& gradients, const device::GradientReady& ready,
                                const FusedUpdate* fused) {
  const NvtxRange nvtx("loss: output layer");
  if (fused != nullptr) throw std::logic_error("softmax_layer_step: this device does not fuse updates");
  const Range weight = parameters.layout().tensors[layer.weight].range;
  const Range bias = parameters.layout().tensors[layer.bias].range;
  float* d_weight = gradients.data() + weight.begin;
  float* d_bias = gradients.data() + bias.begin;
  const auto report = [&] {
    if (!ready) return;
    ready(weight, record_event());
    ready(bias, record_event());
  };
  OutputLayer output(gpu_, stream_, matmuls_, scratch_, dtype(), hidden, batch, parameters, layer,
                     step.device_state.data());
  d_hidden.set_rows(output.users());
  if (output.users() == 0) {
    stream_.memset_zero(d_weight, weight.size() * 4);
    stream_.memset_zero(d_bias, bias.size() * 4);
    report();
    return;
  }
  output.step(d_hidden, d_weight, d_bias, report);
}

bool Device::fuses_updates() const {
  return false;
}

}  // namespace vaecf::cuda
