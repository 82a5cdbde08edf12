#include <vaecf/math/composite_prior.hpp>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

template <class T>
T* copy_of(Matrix& activations) {
  return reinterpret_cast<T*>(activations.copy());
}

template <class T>
struct AddBias {
  const float* bias;
  Activation act;
  std::int64_t columns;
  std::int64_t vecs_per_row;  // eights
  float* values;
  T* copy;

  VAECF_HD void operator()(std::int64_t e) const {
    Vec8 y = load_vec8(values + 8 * e);
    const std::int64_t first = 8 * (e % vecs_per_row);
    add(load_vec8(bias + first), y);
    activate(act, first, columns, y);
    store_vec8(values + 8 * e, y);
    if constexpr (!std::is_same_v<T, float>) store_vec8(copy + 8 * e, y);
  }
};

// Computes the gradient before the activation and column sums. Each thread has eight columns of one partial:
// thread w starts at the w-th eight and continues `partials` rows further down. Replaces `values` only if
// `keeps_values` is set.
template <class T>
struct ActivationBackward {
  const float* output;
  Activation act;
  std::int64_t rows;
  std::int64_t vecs;  // eights per row
  std::int64_t partials;
  bool keeps_values;
  float* values;
  T* copy;
  float* partial;  // (partials, 8 * vecs)

  VAECF_HD void operator()(std::int64_t w) const {
    Vec8 sums{};
    for (std::int64_t at = 8 * w; at < 8 * rows * vecs; at += 8 * partials * vecs) {
      Vec8 d = load_vec8(values + at);
      if (act != Activation::identity) {
        const Vec8 y = load_vec8(output + at);
        for (int j = 0; j < 8; ++j) {
          d.at[j] = act == Activation::tanh ? math::tanh_backward(d.at[j], y.at[j])
                                            : math::sigmoid_backward(d.at[j], y.at[j]);
        }
        if (keeps_values) store_vec8(values + at, d);
      }
      if constexpr (!std::is_same_v<T, float>) store_vec8(copy + at, d);
      add(d, sums);
    }
    store_vec8(partial + 8 * w, sums);
  }
};

/// Partial sum s of a column is the sum of rows s, s + partials, s + 2 partials, .. of it.
struct PartialColumnSums {
  const float* values;
  std::int64_t rows;
  std::int64_t vecs;  // eights per row
  std::int64_t partials;
  float* partial;

  VAECF_HD void operator()(std::int64_t w) const {
    Vec8 sums{};
    constexpr int together = 4;  // rows loaded concurrently
    const float* const end = values + 8 * rows * vecs;
    const std::int64_t step = 8 * partials * vecs;
    const float* row = values + 8 * w;
    for (; end - row > (together - 1) * step; row += together * step) {
      Vec8 d[together];
      for (int i = 0; i < together; ++i) d[i] = load_vec8(row + i * step);
      for (int i = 0; i < together; ++i) add(d[i], sums);
    }
    for (; row < end; row += step) add(load_vec8(row), sums);
    store_vec8(partial + 8 * w, sums);
  }
};

// Adds the partials of several sums. Each block has 128 columns of one, with 16 threads for each eight of
// them.
struct ReduceColumnPartials {
  static constexpr int threads = 256;
  static constexpr int vecs_per_block = 16;
  static constexpr int shares = threads / vecs_per_block;
  static constexpr int scratch_bytes = threads * sizeof(Vec8);
  struct Part {
    ColumnSums sum;
    std::int64_t first_block;
  };
  Part parts[Scratch::max_column_sums] = {};
  int count = 0;

  /// Adds `sum` and returns the number of blocks so far.
  std::int64_t add(const ColumnSums& sum, std::int64_t blocks) {
    parts[count++] = {sum, blocks};
    return blocks + blocks_for(sum.vecs, vecs_per_block);
  }

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    int part = 0;
    while (part + 1 < count && block >= parts[part + 1].first_block) ++part;
    const ColumnSums& sum = parts[part].sum;
    reduce(thread_group, sum, (block - parts[part].first_block) * vecs_per_block,
           reinterpret_cast<float*>(scratch));
  }

  /// `shared`: (shares, 128).
  template <class ThreadGroup>
  VAECF_HD static void reduce(ThreadGroup& thread_group, const ColumnSums& of, std::int64_t first,
                              float* shared) {
    const std::int64_t mine = of.vecs - first < vecs_per_block ? of.vecs - first : vecs_per_block;
    thread_group.each(threads, [&](std::int64_t i) {
      const std::int64_t e = i % vecs_per_block;
      if (e >= mine) return;
      Vec8 sum{};
      for (std::int64_t row = i / vecs_per_block; row < of.partials; row += shares) {
        cuda::add(load_vec8(of.partial + 8 * (row * of.vecs + first + e)), sum);
      }
      store_vec8(shared + 8 * i, sum, Memory::shared);
    });
    thread_group.each(8 * mine, [&](std::int64_t column) {
      float sum = 0.0F;
      for (int share = 0; share < shares; ++share) sum += shared[8 * vecs_per_block * share + column];
      of.sums[8 * first + column] = sum;
    });
  }
};

// Enough threads to saturate memory; more partials mean more partial sums to write and add.
constexpr std::int64_t threads_wanted = 65536;
constexpr std::int64_t max_partials = 512;
constexpr std::int64_t min_rows_per_partial = 8;

/// Returns the number of partial sums of each of `columns` columns. It depends only on the sizes, and so does
/// the order of every addition.
std::int64_t num_partials(std::int64_t rows, std::int64_t columns) {
  const std::int64_t max_for_rows = std::clamp<std::int64_t>(rows / min_rows_per_partial, 1, max_partials);
  return std::clamp<std::int64_t>(threads_wanted / (columns / 8), 1, max_for_rows);
}

VAECF_HD inline float swish(const float* x, std::int64_t j) {
  return x[j] * math::sigmoid(x[j]);
}

// One user per block.
template <class T>
struct SwishNorm {
  static constexpr int threads = 128;
  const float* gain;
  const float* offset;
  bool first;
  std::int64_t columns;
  std::int64_t stride;
  float* s;
  float* sum;
  float* h;
  T* copy;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    float* x = s + user * stride;
    float* running = sum + user * stride;
    if (!first) thread_group.each(columns, [&](std::int64_t j) { x[j] += running[j]; });
    const auto norm =
        math::row_norm<float>(thread_group, columns, [&](std::int64_t j) { return swish(x, j); });
    thread_group.each(columns, [&](std::int64_t j) {
      const float value = norm(swish(x, j)) * gain[j] + offset[j];
      h[user * stride + j] = value;
      if constexpr (!std::is_same_v<T, float>) copy[user * stride + j] = from_float<T>(value);
      running[j] = first ? value : running[j] + value;
    });
  }
};

// One user per block. The gradient of the gain is the sum over users of what replaces s.
struct SwishNormBackward {
  static constexpr int threads = 128;
  const float* gain;
  bool first;
  std::int64_t columns;
  std::int64_t stride;
  float* s;
  float* d;
  float* sum;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    float* x = s + user * stride;
    float* d_row = d + user * stride;
    float* running = sum + user * stride;
    const auto norm =
        math::row_norm<float>(thread_group, columns, [&](std::int64_t j) { return swish(x, j); });
    const auto normalized = [&](std::int64_t j) { return norm(swish(x, j)); };
    const auto scaled = [&](std::int64_t j) { return d_row[j] * gain[j]; };
    const auto gradient = math::row_norm_gradient(thread_group, columns, norm, scaled, normalized);
    thread_group.each(columns, [&](std::int64_t j) {
      const float value = normalized(j);
      const float d_s = gradient(scaled(j), value) * math::swish_derivative(x[j], math::sigmoid(x[j]));
      x[j] = d_row[j] * value;
      d_row[j] = d_s;
      running[j] = first ? d_s : running[j] + d_s;
    });
  }
};

}  // namespace

void Device::update_half_copy(Matrix& activations) {
  write_half_copies(activations.values(), activations.copy(), activations.rows() * activations.stride());
}

template <class F>
void Device::sum_columns(const Matrix& d, float* sums, F&& write_partials) {
  const std::int64_t vecs = d.stride() / 8;
  if (d.rows() == 0) return stream_.memset_zero(sums, 8 * vecs * 4);
  if (open_sums_.size() == Scratch::max_column_sums) finish_sums();
  const std::int64_t partials = num_partials(d.rows(), 8 * vecs);
  const auto slot = static_cast<Scratch::Slot>(Scratch::column_sums + static_cast<int>(open_sums_.size()));
  auto* partial = scratch_.get<float>(slot, partials * 8 * vecs, "sums of gradients");
  write_partials(partials, partial);
  open_sums_.push_back({partial, partials, vecs, sums});
}

void Device::finish_sums() {
  ReduceColumnPartials reduce;
  std::int64_t blocks = 0;
  for (const ColumnSums& sum : open_sums_) blocks = reduce.add(sum, blocks);
  open_sums_.clear();
  launch(stream_, blocks, reduce);
}

void Device::finish_sums(const Backward& backward) {
  if (backward.fused == nullptr || backward.ready) finish_sums();
}

void Device::add_bias(const float* bias, Activation act, Matrix& output) {
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const std::int64_t vecs_per_row = output.stride() / 8;
    launch_elements(
        stream_, output.rows() * vecs_per_row,
        AddBias<T>{bias, act, output.columns(), vecs_per_row, output.values(), copy_of<T>(output)});
  });
}

void Device::activation_backward(Activation act, const Matrix& output, DType reads, Matrix& d_output,
                                 float* d_bias) {
  const std::int64_t vecs = d_output.stride() / 8;
  sum_columns(d_output, d_bias, [&](std::int64_t partials, float* partial) {
    dispatch_dtype(dtype(), [&]<class T>(T) {
      launch_elements(
          stream_, partials * vecs,
          ActivationBackward<T>{output.values(), act, d_output.rows(), vecs, partials, reads == DType::fp32,
                                d_output.values(), copy_of<T>(d_output), partial});
    });
  });
}

void Device::column_sums(const Matrix& d, float* sums) {
  const std::int64_t vecs = d.stride() / 8;
  sum_columns(d, sums, [&](std::int64_t partials, float* partial) {
    launch_elements(stream_, partials * vecs,
                    PartialColumnSums{d.values(), d.rows(), vecs, partials, partial});
  });
}

// Products include padded columns if these are zero on all sides. The padding of rows is zero; memory after
// the last row of a tensor is not.

void Device::layer_product(const Matrix& input, const Parameters& parameters, Layer layer, Matrix& output) {
  output.set_rows(input.rows());
  if (input.rows() == 0) return;
  const MatmulSpec spec{.m = input.rows(),
                        .n = output.stride(),
                        .k = input.columns(),
                        .lda = input.stride(),
                        .ldb = parameters.layout().tensors[layer.weight].stride,
                        .operands = dtype()};
  matmuls_.run(stream_, spec, input.operand(), parameters.operand(layer.weight), output.values());
}

void Device::linear(const Matrix& input, const Parameters& parameters, Layer layer, Activation act,
                    Matrix& output) {
  const NvtxRange nvtx("forward: layer");
  layer_product(input, parameters, layer, output);
  add_bias(parameters.weights(layer.bias), act, output);
}

void Device::linear_backward(const Matrix& input, Layer layer, Activation act, const Matrix& output,
                             Matrix& d_output, Matrix* d_input, const Matrix* added_to_input,
                             const Backward& backward) {
  const NvtxRange nvtx("backward: layer");
  const TensorLayout& weight = backward.layout().tensors[layer.weight];
  const Range bias = backward.layout().tensors[layer.bias].range;
  float* d_weight = backward.gradients.data() + weight.range.begin;
  const std::int64_t rows = d_output.rows();

  activation_backward(act, output, dtype(), d_output, backward.gradients.data() + bias.begin);
  finish_sums(backward);
  if (rows == 0) {
    stream_.memset_zero(d_weight, weight.range.size() * 4);
  } else {
    const MatmulSpec spec{.m = weight.spec.rows,
                          .n = d_output.stride(),
                          .k = rows,
                          .a_transposed = true,
                          .lda = input.stride(),
                          .ldc = weight.stride,
                          .operands = dtype()};
    matmuls_.run(stream_, spec, input.operand(), d_output.operand(), d_weight);
  }
  if (backward.ready) {
    backward.ready(weight.range, record_event());
    backward.ready(bias, record_event());
  }

  if (d_input == nullptr) return;
  d_input->set_rows(rows);
  if (rows == 0) return;
  const bool adds = added_to_input != nullptr;
  if (adds) stream_.copy(d_input->values(), added_to_input->values(), rows * d_input->stride() * 4);
  const MatmulSpec spec{.m = rows,
                        .n = weight.spec.rows,
                        .k = d_output.stride(),
                        .b_transposed = true,
                        .ldb = weight.stride,
                        .ldc = d_input->stride(),
                        .accumulate = adds,
                        .operands = dtype()};
  matmuls_.run(stream_, spec, d_output.operand(), backward.parameters.operand(layer.weight),
               d_input->values());
}

void Device::swish_norm(Matrix& s, const Parameters& parameters, Norm norm, bool first, Matrix& sum,
                        Matrix& h) {
  const NvtxRange nvtx("forward: swish and normalization");
  sum.set_rows(s.rows());
  h.set_rows(s.rows());
  dispatch_dtype(dtype(), [&]<class T>(T) {
    launch(stream_, s.rows(),
           SwishNorm<T>{.gain = parameters.weights(norm.gain),
                        .offset = parameters.weights(norm.offset),
                        .first = first,
                        .columns = s.columns(),
                        .stride = s.stride(),
                        .s = s.values(),
                        .sum = sum.values(),
                        .h = h.values(),
                        .copy = reinterpret_cast<T*>(h.copy())});
  });
}

void Device::swish_norm_backward(Matrix& s, Norm norm, bool first, Matrix& d_h, Matrix& sum,
                                 const Backward& backward) {
  const NvtxRange nvtx("backward: swish and normalization");
  const Range gain = backward.layout().tensors[norm.gain].range;
  const Range offset = backward.layout().tensors[norm.offset].range;
  sum.set_rows(s.rows());
  column_sums(d_h, backward.gradients.data() + offset.begin);
  launch(stream_, s.rows(),
         SwishNormBackward{.gain = backward.parameters.weights(norm.gain),
                           .first = first,
                           .columns = s.columns(),
                           .stride = s.stride(),
                           .s = s.values(),
                           .d = d_h.values(),
                           .sum = sum.values()});
  column_sums(s, backward.gradients.data() + gain.begin);
  finish_sums(backward);
  if (!backward.ready) return;
  backward.ready(gain, record_event());
  backward.ready(offset, record_event());
}

}  // namespace vaecf::cuda
