#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "device/cuda/device.hpp"
#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/kernels/softmax_kernels.hpp"
#include "device/cuda/layers/exchange.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

// The gradients of a block of users are stored for the later products. More users are divided into blocks,
// whose weight gradients are added. The size depends on the GPU only, not on its current load, so that sums
// keep their order from run to run. No product has more elements than max_logits.
constexpr std::int64_t share_of_memory = 8;
constexpr std::int64_t max_logits = std::int64_t{1} << 31;
constexpr std::int64_t block_step = 64;  // users
constexpr std::int64_t min_block = 128;  // fewer users make products inefficient
// Rows of ML-20M, and the longest that fit into a kernel's 48 KiB of static shared memory, in bytes.
constexpr int small_row = 40 * 1024;
constexpr int large_row = 46 * 1024;
// Longer rows are divided, so that few users are enough to occupy a GPU.
constexpr std::int64_t segment_items = 16384;

/// The output layer for one batch.
///
/// In 16-bit precisions, logits and their gradients are rounded to 16 bits. As with any product with a 16-bit
/// result, softmax then gets e^logit with a relative error of |logit| 2^-9 in bf16 and |logit| 2^-12 in fp16.
/// Everything in between is fp32, the loss fp64.
class OutputLayer {
 public:
  OutputLayer(Loss loss, Exchange& exchange, Gpu& gpu, Stream& stream, Products& matmuls, Scratch& scratch,
              DType dtype, const Matrix& hidden, const Batch& batch, const Parameters& parameters,
              Layer layer, DeviceStepState* state, double* nll)
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
        row_bytes_(round_up(items_, row_alignment) * size_of(dtype)),
        merges_(loss == Loss::multinomial && (!exchange.alone() || row_bytes_ > large_row)),
        weights_(parameters.operand(layer.weight)),
        bias_(parameters.operand(layer.bias)),
        state_(state),
        nll_(nll) {
    if (!batch.has_transpose) throw std::logic_error("output layer: the batch must have its transpose");
    const std::int64_t most_items = (batch.all_items + exchange.item_slices() - 1) / exchange.item_slices();
    const std::int64_t bytes_of_user = round_up(most_items, item_alignment) * size_of(dtype);
    block_ = std::max(block_bytes(gpu) / bytes_of_user / block_step * block_step, min_block);
  }

  std::int64_t users() const { return batch_.users(); }

  /// Computes loss and gradients. Calls weights_done() when d_weight and d_bias are complete. Returns the
  /// event of d_hidden, for which the stream must wait; null: none.
  ///
  /// Computes the weights' gradients in one product over the block, and then those of the hidden units:
  /// - The reduction of the largest tensor starts as early as possible and overlaps with all that follows.
  /// - The hidden units' product then reads the logits' gradients from memory, not from L2. But it does 1200
  ///   operations on each of them (600 hidden units), 600 per byte: twice what an H100 needs to be bound by
  ///   arithmetic rather than memory.
  /// - Dividing the weights' product into separately reported ranges would cost another wave of tiles, more
  ///   than its reduction can gain by an earlier start.
  /// If ranks share the items, the gradients of the hidden units come first: they must be summed over the
  /// blocks, which overlaps with the weights' product.
  template <class F>
  EventHandle step(OutputGradients which, Matrix& d_hidden, float* d_weight, float* d_bias,
                   F&& weights_done) {
    const bool of_hidden = which != OutputGradients::weights;
    const bool of_weights = which != OutputGradients::hidden;
    const std::int64_t most = std::min(block_, users());
    logits_ = scratch_.get<std::byte>(Scratch::logits, most * stride_ * size_of(dtype_), "the logits");
    // With a column of ones after the hidden units, the product that computes d_weight computes d_bias, too.
    if (d_bias != d_weight + hidden_.columns() * stride_)
      throw std::logic_error("output layer: the bias must follow the weights in memory");
    auto* positive_logits =
        scratch_.get<float>(Scratch::per_entry, std::max<std::int64_t>(batch_.max_entries, 1),
                            "logits of the batch's interactions");
    if (merges_) exchange_.values_memory(2 * most);
    float* d_all = of_hidden ? exchange_.sums_memory(d_hidden) : nullptr;
    exchange_.reserve_gather(hidden_, dtype_);
    all_hidden_ = exchange_.gather(hidden_, dtype_);
    // Products write no padding.
    if (of_hidden && !exchange_.alone() && hidden_.columns() < hidden_.stride())
      stream_.memset_zero(d_all, users() * hidden_.stride() * 4);
    EventHandle summed;
    for (std::int64_t first = 0; first < users(); first += block_) {
      const Range block{first, std::min(first + block_, users())};
      forward(block, positive_logits);
      const Operand gradient = matmuls_.split(stream_, dtype_, logits_, block.size() * stride_);
      const bool last = block.end == users();
      if (of_hidden && !exchange_.alone()) {
        hidden_gradient(block, gradient, d_all);
        if (last) summed = exchange_.start_sum(d_all, d_hidden);
      }
      if (of_weights) weight_gradient(block, gradient, d_weight);
      if (of_weights && last) weights_done();
      if (of_hidden && exchange_.alone()) hidden_gradient(block, gradient, d_all);
    }
    return summed;
  }

 private:
  const std::byte* hidden_from(std::int64_t user) const {
    return static_cast<const std::byte*>(all_hidden_) + user * hidden_.stride() * size_of(dtype_);
  }

  /// Returns the bytes of logits that are kept: a power of two, because ranks that share the items must
  /// choose the same size, and GPUs of one model may differ a little in memory.
  std::int64_t block_bytes(const Gpu& gpu) const {
    const auto share = static_cast<std::uint64_t>(gpu.total_bytes() / share_of_memory);
    return std::min(static_cast<std::int64_t>(std::bit_floor(share)), max_logits * size_of(dtype_));
  }

  /// Computes logits and losses of `block`, and replaces the logits by gradients.
  void forward(Range block, float* positive_logits) {
    const MatmulSpec spec{.m = block.size(),
                          .n = stride_,
                          .k = hidden_.columns(),
                          .lda = hidden_.stride(),
                          .bias = true,
                          .operands = dtype_,
                          .result = dtype_};
    if (items_ > 0) matmuls_.run(stream_, spec, hidden_from(block.begin), weights_, logits_, bias_);
    dispatch_dtype(dtype_, [&]<class T>(T) {
      const LogitRows<T> rows{.logits = reinterpret_cast<T*>(logits_),
                              .stride = stride_,
                              .items = items_,
                              .first_user = block.begin,
                              .offsets = batch_.offsets.data(),
                              .sizes = batch_.row_sizes(),
                              .columns = batch_.columns.data(),
                              .state = state_,
                              .nll = nll_,
                              .positive_logits = positive_logits};
      if (loss_ == Loss::squared) {
        const double item_weight = 1.0 / static_cast<double>(batch_.all_items);
        launch(stream_, block.size(), SquaredErrorOfUser<T>{rows, item_weight});
      } else if (merges_) {
        merged_softmax(rows, block.size());
      } else if (row_bytes_ <= small_row) {
        launch(stream_, block.size(), StagedSoftmax<T, small_row>{rows});
      } else {
        launch(stream_, block.size(), StagedSoftmax<T, large_row>{rows});
      }
    });
  }

  /// Merges the softmax of segments of each row, and then those of all item slices.
  template <class T>
  void merged_softmax(const LogitRows<T>& rows, std::int64_t users_of_block) {
    const std::int64_t per_row = (items_ + segment_items - 1) / segment_items;
    const std::int64_t all = std::min(block_, users()) * per_row;
    const Segments<T> segments{per_row, segment_items,
                               scratch_.get<SegmentSums>(Scratch::segments, all, "sums of logits")};
    float* own = exchange_.values_memory(2 * users_of_block);
    launch(stream_, users_of_block * per_row, SoftmaxOfSegments<T>{rows, segments});
    launch(stream_, users_of_block, PairsOfUsers<T>{rows, segments, own});
    const float* pairs = exchange_.gather_values(2 * users_of_block);
    launch(stream_, users_of_block * per_row,
           GradientOfSegments<T>{rows, segments, pairs, exchange_.item_slices(), 2 * users_of_block});
  }

  /// Copies the hidden units of `block` and appends a column of ones.
  const void* append_ones(Range block, std::int64_t stride) {
    void* to = scratch_.bytes(Scratch::hidden, std::min(block_, users()) * stride * size_of(dtype_),
                              "hidden units of the batch");
    dispatch_dtype(dtype_, [&]<class T>(T) {
      launch_elements(stream_, block.size() * stride / 8,
                      AppendOnes<T>{.from = reinterpret_cast<const T*>(hidden_from(block.begin)),
                                    .stride = hidden_.stride(),
                                    .columns = hidden_.columns(),
                                    .vecs_per_row = stride / 8,
                                    .to = static_cast<T*>(to)});
    });
    return to;
  }

  /// Adds up the gradients of `block` and those of the blocks before it: d_weight, and d_bias after it.
  void weight_gradient(Range block, const Operand& gradient, float* d_weight) {
    if (items_ == 0) return;
    const std::int64_t rows = hidden_.columns() + 1;
    const std::int64_t lda = round_up(rows, row_alignment);
    const void* hidden = append_ones(block, lda);
    const MatmulSpec spec{.m = rows,
                          .n = stride_,
                          .k = block.size(),
                          .a_transposed = true,
                          .lda = lda,
                          .accumulate = block.begin > 0,
                          .operands = dtype_};
    matmuls_.run(stream_, spec, hidden, gradient, d_weight);
  }

  /// Writes the gradients of `block` to the rows (users, stride) of `d_hidden`.
  void hidden_gradient(Range block, const Operand& gradient, float* d_hidden) {
    const std::int64_t stride = hidden_.stride();
    float* values = d_hidden + block.begin * stride;
    if (items_ == 0) return stream_.memset_zero(values, block.size() * stride * 4);
    const MatmulSpec spec{.m = block.size(),
                          .n = hidden_.columns(),
                          .k = stride_,
                          .b_transposed = true,
                          .ldc = stride,
                          .operands = dtype_};
    matmuls_.run(stream_, spec, gradient, weights_, values);
  }

  Loss loss_;
  Exchange& exchange_;
  Stream& stream_;
  Products& matmuls_;
  Scratch& scratch_;
  DType dtype_;
  const Matrix& hidden_;
  const Batch& batch_;
  std::int64_t items_;
  std::int64_t stride_;
  std::int64_t row_bytes_;  // without the padding behind it
  bool merges_;             // rows are divided into segments, or the items into item slices
  const void* weights_;
  const void* bias_;
  DeviceStepState* state_;
  std::int64_t block_ = 0;            // users
  double* nll_ = nullptr;             // (users)
  const void* all_hidden_ = nullptr;  // operand (users, stride of hidden_)
  std::byte* logits_ = nullptr;       // (users of a block, stride)
};

}  // namespace

void Device::output_layer_step(Loss loss, const Matrix& hidden, const device::Batch& batch_base, Layer layer,
                               OutputGradients which, Matrix& d_hidden, const Backward& backward) {
  const auto& batch = own<Batch>(batch_base);
  auto& step = own<StepState>(backward.step);
  const NvtxRange nvtx("loss: output layer");
  if (backward.fused != nullptr) require_fusible("output layer", step);
  const auto& tensors = backward.layout().tensors;
  const Range weight = tensors[layer.weight].range;
  const Range bias = tensors[layer.bias].range;
  float* d_weight = backward.gradients.data() + weight.begin;
  float* d_bias = backward.gradients.data() + bias.begin;
  const auto report = [&] {
    if (!backward.ready || backward.fused != nullptr) return;
    for (const Range range : {weight, bias}) {
      if (range.size() > 0) backward.ready(range, record_event());
    }
  };
  Exchange exchange(*this, stream_, scratch_, batch);
  OutputLayer output(loss, exchange, gpu_, stream_, matmuls_, scratch_, dtype(), hidden, batch,
                     backward.parameters, layer, step.device_state.data(),
                     user_losses(batch.users(), step.nll, step));
  step.nll.counted = batch.own().size();
  const bool of_hidden = which != OutputGradients::weights;
  if (of_hidden) d_hidden.set_rows(batch.own().size());
  EventHandle summed;
  if (output.users() == 0) {
    if (which == OutputGradients::hidden) return;
    stream_.memset_zero(d_weight, weight.size() * 4);
    stream_.memset_zero(d_bias, bias.size() * 4);
    report();
  } else {
    summed = output.step(which, d_hidden, d_weight, d_bias, report);
  }
  if (backward.fused != nullptr && which != OutputGradients::hidden) {
    // The update overwrites weights that the gradient of the hidden units is computed from.
    const UpdateRange ranges[] = {{weight, tensors[layer.weight].spec.decays},
                                  {bias, tensors[layer.bias].spec.decays}};
    update_beside(step, ranges, backward.gradients, *backward.fused);
  }
  stream_.wait_event(summed.event);
}

}  // namespace vaecf::cuda
