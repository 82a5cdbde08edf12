#include "device/cuda/operations/output_layer.hpp"

#include <bit>
#include <stdexcept>

#include "device/cuda/device.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

// The gradients of a block of users are stored for the later products. More users are divided into blocks,
// whose weight gradients are added. The size depends on the GPU only, not on its current load, so that sums
// keep their order from run to run. No product has more elements than max_logits.
constexpr std::int64_t share_of_memory = 8;
constexpr std::int64_t max_logits = std::int64_t{1} << 32;
constexpr std::int64_t block_step = 64;  // users
constexpr std::int64_t min_block = 128;  // fewer users make products inefficient
// Rows of ML-20M, and the longest that fit into a kernel's 48 KiB of static shared memory, in bytes.
constexpr int small_row = 40 * 1024;
constexpr int large_row = 46 * 1024;
// Longer rows are divided, so that few users are enough to occupy a GPU.
constexpr std::int64_t segment_items = 16384;

}  // namespace

/// The output layer for one batch.
///
/// In 16-bit precisions, logits and their gradients are rounded to 16 bits. As with any product with a 16-bit
/// result, softmax then gets e^logit with a relative error of |logit| 2^-9 in bf16 and |logit| 2^-12 in fp16.
/// Everything in between is fp32, the loss fp64.
class OutputLayer {
 public:
  OutputLayer(Device& device, const Matrix& hidden, const Batch& batch, Layer layer, OutputGradients which,
              Matrix& d_hidden, const Backward& backward)
      : device_(device),
        exchange_(device, batch),
        dtype_(device.dtype()),
        hidden_(hidden),
        batch_(batch),
        weight_(backward.layout().tensors[layer.weight]),
        bias_(backward.layout().tensors[layer.bias]),
        weights_(backward.parameters.operand(layer.weight)),
        biases_(backward.parameters.operand(layer.bias)),
        which_(which),
        d_hidden_(d_hidden),
        d_weight_(backward.gradients.data() + weight_.range.begin),
        backward_(backward),
        step_(own<StepState>(backward.step)),
        items_(weight_.spec.columns),
        stride_(weight_.stride) {
    if (!batch.has_transpose) throw std::logic_error("output layer: the batch must have its transpose");
    // With a column of ones after the hidden units, the product that computes d_weight computes d_bias, too.
    if (bias_.range.begin != weight_.range.begin + hidden.columns() * stride_)
      throw std::logic_error("output layer: the bias must follow the weights in memory");
    const std::int64_t most_items = (batch.all_items + exchange_.item_slices() - 1) / exchange_.item_slices();
    const std::int64_t bytes_of_user = round_up(most_items, item_alignment) * size_of(dtype_);
    const std::int64_t most = std::max(block_bytes() / bytes_of_user / block_step * block_step, min_block);
    const std::int64_t blocks = (batch.users() + most - 1) / most;
    // Of equal size, so that all products of a layer have one shape.
    if (blocks > 0)
      block_users_ = std::min(round_up(blocks_for(batch.users(), blocks), block_step), batch.users());
  }

  /// Computes loss and gradients, and reports those of weights and bias or updates the weights.
  ///
  /// The weights' gradients come first, in one product over the block, so that the reduction of the largest
  /// tensor overlaps with all that follows: in several ranges they would cost another wave of tiles. The
  /// hidden units' product then reads the logits' gradients from memory, but does 600 operations per byte,
  /// twice what an H100 needs to be bound by arithmetic. If ranks share the items, the gradients of the
  /// hidden units come first: their sum over the blocks overlaps with the weights' product.
  void run(Loss loss) {
    nll_ = device_.user_losses({0, batch_.users()}, step_.nll, step_);
    step_.nll.counted = batch_.own();
    reserve();
    for (std::int64_t first = 0; first < batch_.users(); first += block_users_) {
      const Range block{first, std::min(first + block_users_, batch_.users())};
      write_logits(block);
      dispatch_dtype(dtype_, [&]<class T>(T) { write_gradient(loss, rows_of<T>(block), ones_of<T>(block)); });
      const Operand gradient =
          device_.matmuls_.split(device_.stream_, dtype_, logits_, block.size() * stride_);
      if (!exchange_.alone()) hidden_gradient(block, gradient);
      weight_gradient(block, gradient);
      if (exchange_.alone()) hidden_gradient(block, gradient);
    }
    if (backward_.fused != nullptr && which_ != OutputGradients::hidden) {
      // The update overwrites weights that the gradient of the hidden units is computed from.
      const UpdateRange ranges[] = {{weight_.range, weight_.spec.decays}, {bias_.range, bias_.spec.decays}};
      device_.update_beside(step_, ranges, backward_.gradients, *backward_.fused);
    }
    device_.wait_event(summed_);
  }

 private:
  /// Returns the bytes of logits that are kept: a power of two, because ranks that share the items must
  /// choose the same size, and GPUs of one model may differ a little in memory.
  std::int64_t block_bytes() const {
    const auto share = static_cast<std::uint64_t>(device_.gpu_.total_bytes() / share_of_memory);
    return std::min(static_cast<std::int64_t>(std::bit_floor(share)), max_logits * size_of(dtype_));
  }

  /// Reserves memory and gathers the hidden units. Without users, the gradient is zero.
  void reserve() {
    if (which_ != OutputGradients::weights) d_all_ = exchange_.sums_memory(d_hidden_);
    if (batch_.users() == 0) {
      if (which_ == OutputGradients::hidden) return;
      device_.stream_.memset_zero(d_weight_, (bias_.range.end - weight_.range.begin) * 4);
      return report();
    }
    Scratch& scratch = device_.scratch_;
    logits_ = scratch.get<std::byte>(Scratch::logits, block_users_ * stride_ * size_of(dtype_), "the logits");
    positive_logits_ = scratch.get<float>(Scratch::per_entry, std::max<std::int64_t>(batch_.max_entries, 1),
                                          "logits of the batch's interactions");
    if (which_ != OutputGradients::hidden)
      with_ones_ = scratch.get<std::byte>(Scratch::hidden, block_users_ * weight_rows() * size_of(dtype_),
                                          "hidden units of the batch");
    exchange_.values_memory(2 * block_users_);
    exchange_.reserve_gather(hidden_, dtype_);
    all_hidden_ = static_cast<const std::byte*>(exchange_.gather(hidden_, dtype_));
    // Products write no padding.
    if (d_all_ != nullptr && !exchange_.alone() && hidden_.columns() < hidden_.stride())
      device_.stream_.memset_zero(d_all_, batch_.users() * hidden_.stride() * 4);
  }

  void report() {
    if (!backward_.ready || backward_.fused != nullptr) return;
    for (const Range range : {weight_.range, bias_.range}) {
      if (range.size() > 0) backward_.ready(range, device_.record_event());
    }
  }

  const std::byte* hidden_of(Range block) const {
    return all_hidden_ + block.begin * hidden_.stride() * size_of(dtype_);
  }

  template <class T>
  LogitRows<T> rows_of(Range block) const {
    return {.logits = reinterpret_cast<T*>(logits_),
            .stride = stride_,
            .items = items_,
            .first_user = block.begin,
            .offsets = batch_.offsets.data(),
            .totals = batch_.totals.data(),
            .columns = batch_.columns.data(),
            .values = batch_.entry_values(),
            .state = step_.device_state.data(),
            .nll = nll_,
            .positive_logits = positive_logits_};
  }

  /// Returns what appends ones to the hidden units of `block`.
  template <class T>
  AppendOnes<T> ones_of(Range block) const {
    return {.from = reinterpret_cast<const T*>(hidden_of(block)),
            .users = block.size(),
            .stride = hidden_.stride(),
            .columns = hidden_.columns(),
            .to = reinterpret_cast<T*>(with_ones_),
            .width = weight_rows()};
  }

  /// Returns the rows of the weight gradient, with those of the bias and the spare ones behind it.
  std::int64_t weight_rows() const { return round_up(hidden_.columns() + 1, row_alignment); }

  void write_logits(Range block) {
    const MatmulSpec spec{.m = block.size(),
                          .n = stride_,
                          .k = hidden_.columns(),
                          .lda = hidden_.stride(),
                          .bias = true,
                          .operands = dtype_,
                          .result = dtype_};
    if (items_ > 0) device_.matmuls_.run(device_.stream_, spec, hidden_of(block), weights_, logits_, biases_);
  }

  /// Computes the losses of a block of users, replaces their logits by gradients, and copies their hidden
  /// units.
  template <class T>
  void write_gradient(Loss loss, const LogitRows<T>& rows, const AppendOnes<T>& ones) {
    const std::int64_t row_bytes = round_up(items_, row_alignment) * size_of(dtype_);
    Stream& stream = device_.stream_;
    if (loss == Loss::squared) {
      launch(stream, ones.blocks(),
             SquaredErrorOfUser<T>{rows, ones, 1.0 / static_cast<double>(batch_.all_items)});
    } else if (!exchange_.alone() || row_bytes > large_row) {
      merged_softmax(rows, ones);
    } else if (row_bytes > small_row) {
      launch(stream, ones.blocks(), StagedSoftmax<T, large_row>{rows, ones});
    } else {
      launch(stream, ones.blocks(), StagedSoftmax<T, small_row>{rows, ones});
    }
  }

  /// Merges the softmax of segments of each row, and then those of all item slices.
  template <class T>
  void merged_softmax(const LogitRows<T>& rows, const AppendOnes<T>& ones) {
    Stream& stream = device_.stream_;
    const std::int64_t users = ones.users;
    const std::int64_t per_row = (items_ + segment_items - 1) / segment_items;
    const Segments<T> segments{per_row, segment_items,
                               device_.scratch_.template get<SegmentSums>(
                                   Scratch::segments, block_users_ * per_row, "sums of logits")};
    launch(stream, users * per_row, SoftmaxOfSegments<T>{rows, segments});
    launch(stream, ones.blocks(), PairsOfUsers<T>{rows, ones, segments, exchange_.values_memory(2 * users)});
    const float* pairs = exchange_.gather_values(2 * users);
    launch(stream, users * per_row,
           GradientOfSegments<T>{rows, segments, pairs, exchange_.item_slices(), 2 * users});
  }

  /// Adds up the gradients of `block` and those of the blocks before it: d_weight, d_bias after it, and zeros
  /// in the spare rows behind it.
  void weight_gradient(Range block, const Operand& gradient) {
    if (which_ == OutputGradients::hidden) return;
    const MatmulSpec spec{.m = weight_rows(),
                          .n = stride_,
                          .k = block.size(),
                          .a_transposed = true,
                          .accumulate = block.begin > 0,
                          .operands = dtype_};
    if (items_ > 0) device_.matmuls_.run(device_.stream_, spec, with_ones_, gradient, d_weight_);
    if (block.end == batch_.users()) report();
  }

  /// Writes the gradients of the hidden units of `block`, and sums those of all blocks over the blocks.
  void hidden_gradient(Range block, const Operand& gradient) {
    if (which_ == OutputGradients::weights) return;
    const std::int64_t stride = hidden_.stride();
    float* values = d_all_ + block.begin * stride;
    const MatmulSpec spec{.m = block.size(),
                          .n = hidden_.columns(),
                          .k = stride_,
                          .b_transposed = true,
                          .ldc = stride,
                          .operands = dtype_};
    if (items_ > 0) {
      device_.matmuls_.run(device_.stream_, spec, gradient, weights_, values);
    } else {
      device_.stream_.memset_zero(values, block.size() * stride * 4);
    }
    if (block.end == batch_.users()) summed_ = exchange_.start_sum(d_all_, d_hidden_);
  }

  Device& device_;
  Exchange exchange_;
  DType dtype_;
  const Matrix& hidden_;
  const Batch& batch_;
  const TensorLayout& weight_;
  const TensorLayout& bias_;
  const void* weights_;
  const void* biases_;
  OutputGradients which_;
  Matrix& d_hidden_;
  float* d_weight_;
  const Backward& backward_;
  StepState& step_;
  std::int64_t items_;
  std::int64_t stride_;
  std::int64_t block_users_ = 0;
  double* nll_ = nullptr;                  // (users)
  const std::byte* all_hidden_ = nullptr;  // operand (users, stride of hidden_)
  std::byte* logits_ = nullptr;            // (users of a block, stride)
  float* positive_logits_ = nullptr;       // (entries of the batch)
  std::byte* with_ones_ = nullptr;         // hidden units of a block and ones (users, weight_rows())
  float* d_all_ = nullptr;                 // gradients of the hidden units of all users
  EventHandle summed_;
};

void Device::output_layer_step(Loss loss, const Matrix& hidden, const device::Batch& batch, Layer layer,
                               OutputGradients which, Matrix& d_hidden, const Backward& backward) {
  const NvtxRange nvtx("loss: output layer");
  if (backward.fused != nullptr) require_fusible("output layer", own<StepState>(backward.step));
  OutputLayer(*this, hidden, own<Batch>(batch), layer, which, d_hidden, backward).run(loss);
}

}  // namespace vaecf::cuda
