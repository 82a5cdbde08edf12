#pragma once

#include <vaecf/device/cuda/device.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/kernels/exponential_kernels.hpp"
#include "device/cuda/kernels/softmax_kernels.hpp"
#include "device/cuda/kernels/squared_kernels.hpp"
#include "device/cuda/layers/exchange.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/tune.hpp"

namespace vaecf::cuda {

// Logits are computed and replaced by gradients in chunks of users. In a chunk of 2,560 users of ML-20M, the
// product's 20 x 79 tiles of 128 x 256 are almost exactly twelve waves of 132 multiprocessors. With chunk=0 a
// chunk fits into the L2 cache (50 MB on an H100): 640 users in 16 bits, three waves.
constexpr std::int64_t chunk_bytes = 640 * 20224 * 2;
constexpr std::int64_t chunk_step = 64;  // users
constexpr std::int64_t min_chunk = 128;  // fewer users make products inefficient
// The gradients of a slice of users are stored for the later products. More users are divided into slices,
// whose weight gradients are added. The size depends on the GPU only, not on its current load, so that sums
// keep their order from run to run. Ranks that share the items must choose the same size: see slice_bytes().
constexpr std::int64_t share_of_memory = 8;
// Rows that do not fit into shared memory are divided, so that few users are enough to occupy a GPU.
constexpr std::int64_t segment_items = 16384;

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
  OutputLayer(device::Loss loss, Exchange& exchange, Gpu& gpu, Stream& stream, Products& matmuls,
              Scratch& scratch, DType dtype, const Activations& hidden, const Batch& batch,
              const Parameters& parameters, device::Layer layer, DeviceStepState* state, double* nll)
      : loss_(loss),
        exchange_(exchange),
        stream_(stream),
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
        state_(state),
        nll_(nll) {
    if (!batch.has_transpose) throw std::logic_error("output layer: the batch must have its transpose");
    const std::int64_t largest = (batch.all_items + exchange.slices() - 1) / exchange.slices();
    const std::int64_t bytes_of_row =
        exchange.alone() ? row_bytes_ : round_up(largest, item_alignment) * size_of(dtype);
    const auto users_in = [&](std::int64_t bytes) {
      return std::max(bytes / bytes_of_row / chunk_step * chunk_step, min_chunk);
    };
    slice_ = users_in(std::min(tune().slice << 20, slice_bytes(gpu)));
    chunk_ = std::min(slice_, tune().chunk > 0 ? tune().chunk : users_in(chunk_bytes));
  }

  std::int64_t users() const { return batch_.users(); }

  /// Computes loss and gradients. Calls weights_done() when d_weight and d_bias are complete. Returns the
  /// event of d_hidden, for which the stream must wait; null: none.
  ///
  /// Computes the weights' gradients in one product over the slice, and then those of the hidden units:
  /// - The reduction of the largest tensor starts as early as possible and overlaps with all that follows.
  /// - The hidden units' product then reads the logits' gradients from memory, not from L2. But it does 1200
  ///   operations on each of them (600 hidden units), 600 per byte: twice what an H100 needs to be bound by
  ///   arithmetic rather than memory. Chunk by chunk it would be 25 tiles for 132 multiprocessors.
  /// - Dividing the weights' product into separately reported ranges would cost another wave of tiles, more
  ///   than its reduction can gain by an earlier start.
  /// If ranks share the items, the gradients of the hidden units come first: they must be summed over the
  /// slices, which overlaps with the weights' product.
  template <class F>
  device::EventHandle step(device::SoftmaxGradients which, Activations& d_hidden, float* d_weight,
                           float* d_bias, F&& weights_done) {
    const bool of_hidden = which != device::SoftmaxGradients::weights;
    const bool of_weights = which != device::SoftmaxGradients::hidden;
    logits_ = logits_buffer(std::min(slice_, users()));
    // With a column of ones after the hidden units, the product that computes d_weight computes d_bias, too.
    if (d_bias != d_weight + hidden_.columns() * stride_)
      throw std::logic_error("output layer: the bias must follow the weights in memory");
    // Instead of gradients, products read exponentials, and a factor of each user with the hidden units.
    const bool exponentials =
        exchange_.alone() && loss_ == device::Loss::multinomial && tune().exp != 0 && dtype_ != DType::fp16;
    if (exponentials)
      factors_ = scratch_.get<float>(Scratch::factors, users(), "factors of the batch's users");
    auto* positive_logits =
        scratch_.get<float>(Scratch::per_entry, std::max<std::int64_t>(batch_.max_entries, 1),
                            "logits of the batch's interactions");
    const bool merges = !exchange_.alone() && loss_ == device::Loss::multinomial;
    if (merges) exchange_.values_memory(2 * std::min(slice_, users()));
    float* d_all = of_hidden ? exchange_.sums_memory(d_hidden) : nullptr;
    exchange_.reserve_gather(hidden_, dtype_);
    all_hidden_ = exchange_.gather(hidden_, dtype_);
    // Products write no padding.
    if (of_hidden && !exchange_.alone() && hidden_.columns() < hidden_.stride())
      stream_.memset_zero(d_all, users() * hidden_.stride() * 4);
    device::EventHandle summed;
    for_parts({0, users()}, slice_, [&](Range slice) {
      const auto logits_of = [&](Range chunk) { return logits_ + (chunk.begin - slice.begin) * row_bytes_; };
      const float* pairs = nullptr;
      if (merges) {
        for_parts(slice, chunk_, [&](Range chunk) {
          float* of_chunk = exchange_.values_memory(2 * slice.size()) + 2 * (chunk.begin - slice.begin);
          forward(chunk, logits_of(chunk), positive_logits, of_chunk);
        });
        pairs = exchange_.gather_values(2 * slice.size());
      }
      for_parts(slice, chunk_, [&](Range chunk) {
        std::byte* logits = logits_of(chunk);
        if (merges) {
          merge(slice, chunk, logits, positive_logits, pairs);
        } else {
          forward(chunk, logits, positive_logits, nullptr);
        }
      });
      const Operand gradient = matmuls_.split(stream_, dtype_, logits_, slice.size() * stride_);
      const bool last = slice.end == users();
      if (of_hidden && !exchange_.alone()) {
        hidden_gradient(slice, gradient, d_all);
        if (last) summed = exchange_.start_sum(d_all, d_hidden);
      }
      if (of_weights) weight_gradient(slice, gradient, d_weight);
      if (of_weights && last) weights_done();
      if (of_hidden && exchange_.alone()) hidden_gradient(slice, gradient, d_all);
    });
    return summed;
  }

 private:
  std::byte* logits_buffer(std::int64_t rows) const {
    return scratch_.get<std::byte>(Scratch::logits, rows * row_bytes_, "the logits");
  }

  const std::byte* hidden_from(std::int64_t user) const {
    return static_cast<const std::byte*>(all_hidden_) + user * hidden_.stride() * size_of(dtype_);
  }

  /// Returns the bytes of logits that are kept. Ranks that share the items choose a power of two, because
  /// GPUs of one model may differ a little in memory.
  std::int64_t slice_bytes(const Gpu& gpu) const {
    const std::int64_t bytes = gpu.total_bytes() / share_of_memory;
    return exchange_.alone() ? bytes
                             : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
  }

  template <class T>
  LogitRows<T> logit_rows(Range chunk, std::byte* logits, float* positive_logits) const {
    return {.logits = reinterpret_cast<T*>(logits),
            .stride = stride_,
            .items = items_,
            .first_user = chunk.begin,
            .offsets = batch_.offsets.data(),
            .sizes = batch_.row_sizes(),
            .columns = batch_.columns.data(),
            .state = state_,
            .nll = nll_,
            .positive_logits = positive_logits};
  }

  /// Computes logits and losses of `chunk`, and replaces the logits by gradients. With `pairs`, computes only
  /// maximum and sum of each user's softmax.
  void forward(Range chunk, std::byte* logits, float* positive_logits, float* pairs) {
    const MatmulSpec spec{.m = chunk.size(),
                          .n = stride_,
                          .k = hidden_.columns(),
                          .lda = hidden_.stride(),
                          .ldb = stride_,
                          .ldc = stride_,
                          .bias = true,
                          .operands = dtype_,
                          .result = dtype_};
    if (items_ > 0) matmuls_.run(stream_, spec, hidden_from(chunk.begin), weights_, logits, bias_);
    dispatch_dtype(dtype_, [&]<class T>(T) {
      const LogitRows<T> rows = logit_rows<T>(chunk, logits, positive_logits);
      if (loss_ == device::Loss::squared) {
        const double item_weight = 1.0 / static_cast<double>(batch_.all_items);
        return launch(stream_, chunk.size(), SquaredErrorOfUser<T>{rows, item_weight});
      }
      if (pairs == nullptr) return softmax(rows, chunk.size());
      const Segments<T> segments = make_segments<T>();
      launch(stream_, chunk.size() * segments.per_row, SoftmaxOfSegments<T>{rows, segments});
      launch(stream_, chunk.size(), PairsOfUsers<T>{rows, segments, pairs});
    });
  }

  /// Completes the losses of `chunk` and replaces the logits by gradients, given the `pairs` of all slices
  /// for the users of `slice`.
  void merge(Range slice, Range chunk, std::byte* logits, float* positive_logits, const float* pairs) {
    dispatch_dtype(dtype_, [&]<class T>(T) {
      const Segments<T> segments = make_segments<T>();
      launch(
          stream_, chunk.size() * segments.per_row,
          GradientOfSlice<T>{logit_rows<T>(chunk, logits, positive_logits), segments,
                             pairs + 2 * (chunk.begin - slice.begin), exchange_.slices(), 2 * slice.size()});
    });
  }

  template <class T>
  void softmax(const LogitRows<T>& rows, std::int64_t users) {
    constexpr int small = 40 * 1024;  // of ML-20M
    constexpr int large = 46 * 1024;  // a kernel has 48 KiB of static shared memory
    const std::int64_t bytes = round_up(items_, row_alignment) * size_of(dtype_);
    if constexpr (!std::is_same_v<T, Fp16>) {
      if (factors_ != nullptr) return exponentials(rows, users);
    }
    if (tune().softmax == 0) return launch(stream_, users, SoftmaxOfUser<T>{rows});
    if (tune().softmax == 1 && bytes <= small) return launch(stream_, users, StagedSoftmax<T, small>{rows});
    if (tune().softmax == 1 && bytes <= large) return launch(stream_, users, StagedSoftmax<T, large>{rows});
    const Segments<T> segments = make_segments<T>();
    launch(stream_, users * segments.per_row, SoftmaxOfSegments<T>{rows, segments});
    launch(stream_, users * segments.per_row, GradientOfSegments<T>{rows, segments});
  }

  template <class T>
  void exponentials(const LogitRows<T>& rows, std::int64_t users) {
    const Segments<T> segments = make_segments<T>();
    launch(stream_, users * segments.per_row, ExponentialsOfSegments<T>{rows, segments});
    launch(stream_, users,
           CompleteExponentials<T>{.rows = rows,
                                   .segments = segments,
                                   .hidden = static_cast<const T*>(hidden_.operand()),
                                   .hidden_stride = hidden_.stride(),
                                   .hidden_columns = hidden_.columns(),
                                   .weights = static_cast<const T*>(weights_),
                                   .bias = static_cast<const T*>(bias_),
                                   .factors = factors_});
  }

  template <class T>
  Segments<T> make_segments() {
    const std::int64_t length = tune().softmax > 1 ? round_up(tune().softmax, row_alignment) : segment_items;
    const std::int64_t per_row = (items_ + length - 1) / length;
    const std::int64_t all = std::min(chunk_, users()) * per_row;
    return {per_row, length, scratch_.get<SegmentSums>(Scratch::segments, all, "sums of logits")};
  }

  /// Copies the hidden units of `slice` and appends a column of ones; multiplies both by factors_ unless
  /// null.
  const void* append_ones(Range slice, std::int64_t stride) {
    void* to = scratch_.bytes(Scratch::hidden, std::min(slice_, users()) * stride * size_of(dtype_),
                              "hidden units of the batch");
    const auto append = [&]<class T, class From>(T, const From* from) {
      const AppendOnes<T, From> body{.from = from + slice.begin * hidden_.stride(),
                                     .stride = hidden_.stride(),
                                     .columns = hidden_.columns(),
                                     .factors = factors_ == nullptr ? nullptr : factors_ + slice.begin,
                                     .vecs = slice.size() * stride / 8,
                                     .vecs_per_row = stride / 8,
                                     .to = static_cast<T*>(to)};
      launch(stream_, blocks_for(body.vecs, body.threads), body);
    };
    dispatch_dtype(dtype_, [&]<class T>(T type) {
      if (factors_ == nullptr) return append(type, static_cast<const T*>(all_hidden_));
      append(type, hidden_.values());  // fp32: the product is rounded once
    });
    return to;
  }

  /// Adds up the gradients of `slice` and those of the slices before it: d_weight, and d_bias after it.
  void weight_gradient(Range slice, const Operand& gradient, float* d_weight) {
    if (items_ == 0) return;
    const std::int64_t rows = hidden_.columns() + 1;
    const std::int64_t lda = round_up(rows, row_alignment);
    const void* hidden = append_ones(slice, lda);
    const MatmulSpec spec{.m = rows,
                          .n = stride_,
                          .k = slice.size(),
                          .lda = lda,
                          .ldb = stride_,
                          .ldc = stride_,
                          .a_transposed = true,
                          .accumulate = slice.begin > 0,
                          .operands = dtype_};
    matmuls_.run(stream_, spec, hidden, gradient, d_weight);
  }

  /// Writes the gradients of `slice` to the rows (users, stride) of `d_hidden`.
  void hidden_gradient(Range slice, const Operand& gradient, float* d_hidden) {
    const std::int64_t stride = hidden_.stride();
    float* values = d_hidden + slice.begin * stride;
    if (items_ == 0) return stream_.memset_zero(values, slice.size() * stride * 4);
    const MatmulSpec spec{.m = slice.size(),
                          .n = hidden_.columns(),
                          .k = stride_,
                          .lda = stride_,
                          .ldb = stride_,
                          .ldc = stride,
                          .b_transposed = true,
                          .operands = dtype_};
    matmuls_.run(stream_, spec, gradient, weights_, values);
    if (factors_ == nullptr) return;
    const ScaleRows body{.factors = factors_ + slice.begin,
                         .vecs = slice.size() * stride / 8,
                         .vecs_per_row = stride / 8,
                         .values = values};
    launch(stream_, blocks_for(body.vecs, body.threads), body);
  }

  device::Loss loss_;
  Exchange& exchange_;
  Stream& stream_;
  Products& matmuls_;
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
  std::int64_t chunk_ = 0;            // users
  std::int64_t slice_ = 0;            // users
  double* nll_ = nullptr;             // (users)
  float* factors_ = nullptr;          // (users); null: logits are replaced by gradients
  const void* all_hidden_ = nullptr;  // operand (users, stride of hidden_)
  std::byte* logits_ = nullptr;
};

}  // namespace vaecf::cuda
