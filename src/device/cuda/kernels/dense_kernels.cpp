#include "device/cuda/kernels/dense_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

template <class T>
T* copy_of(Matrix& activations) {
  return reinterpret_cast<T*>(activations.copy());
}

VAECF_HD inline void add(const Vec8& values, Vec8& sums) {
  for (int j = 0; j < 8; ++j) sums.at[j] += values.at[j];
}

template <class T>
struct AddBias {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const float* bias;
  device::Activation act;
  std::int64_t columns;
  std::int64_t vecs;  // total number of groups of eight
  std::int64_t vecs_per_row;
  float* values;
  T* copy;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, vecs, [&](std::int64_t e) {
      Vec8 y = load_vec8(values + 8 * e);
      const std::int64_t first = 8 * (e % vecs_per_row);
      add(load_vec8(bias + first), y);
      activate(act, first, columns, y);
      store_vec8(values + 8 * e, y);
      if constexpr (!std::is_same_v<T, float>) store_vec8(copy + 8 * e, y);
    });
  }
};

// Computes the gradient before the activation and column sums. Each thread has eight columns of one partial:
// thread w starts at the w-th group of eight and continues `partials` rows further down.
template <class T>
struct ActivationBackward {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const float* output;
  device::Activation act;
  std::int64_t rows;
  std::int64_t vecs;  // groups of eight per row
  std::int64_t partials;
  float* values;
  T* copy;
  float* partial;  // (partials, 8 * eights)

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, partials * vecs, [&](std::int64_t w) {
      Vec8 sums{};
      for (std::int64_t at = 8 * w; at < 8 * rows * vecs; at += 8 * partials * vecs) {
        Vec8 d = load_vec8(values + at);
        if (act != device::Activation::identity) {
          const Vec8 y = load_vec8(output + at);
          for (int j = 0; j < 8; ++j) {
            d.at[j] = act == device::Activation::tanh ? math::tanh_backward(d.at[j], y.at[j])
                                                      : math::sigmoid_backward(d.at[j], y.at[j]);
          }
          store_vec8(values + at, d);
        }
        if constexpr (!std::is_same_v<T, float>) store_vec8(copy + at, d);
        add(d, sums);
      }
      store_vec8(partial + 8 * w, sums);
    });
  }
};

struct PartialColumnSums {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const float* values;
  std::int64_t rows;
  std::int64_t vecs;  // groups of eight per row
  std::int64_t partials;
  float* partial;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, partials * vecs, [&](std::int64_t w) {
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
    });
  }
};

// Adds the partials. Each block has 128 columns, with 16 threads for each eight of them.
struct ReduceColumnPartials {
  static constexpr int threads = 256;
  static constexpr int vecs_per_block = 16;
  static constexpr int shares = threads / vecs_per_block;
  static constexpr int scratch_bytes = threads * sizeof(Vec8);
  const float* partial;
  std::int64_t partials;
  std::int64_t vecs;
  float* sums;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte* scratch) const {
    float* shared = reinterpret_cast<float*>(scratch);  // (shares, 128)
    const std::int64_t first = block * vecs_per_block;
    const std::int64_t mine = vecs - first < vecs_per_block ? vecs - first : vecs_per_block;
    group.each(threads, [&](std::int64_t i) {
      const std::int64_t e = i % vecs_per_block;
      if (e >= mine) return;
      Vec8 sum{};
      for (std::int64_t partial_row = i / vecs_per_block; partial_row < partials; partial_row += shares) {
        add(load_vec8(partial + 8 * (partial_row * vecs + first + e)), sum);
      }
      store_vec8(shared + 8 * i, sum, Memory::shared);
    });
    group.each(8 * mine, [&](std::int64_t column) {
      float sum = 0.0F;
      for (int share = 0; share < shares; ++share) sum += shared[8 * vecs_per_block * share + column];
      sums[8 * first + column] = sum;
    });
  }
};

struct AddLosses {
  static constexpr int threads = 512;
  static constexpr int scratch_bytes = 0;
  const double* per_user;
  std::int64_t users;
  double* total;
  std::int64_t* count;
  std::int64_t counted;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t, std::byte*) const {
    const double sum = group.sum(users, [&](std::int64_t user) { return per_user[user]; });
    group.each(1, [&](std::int64_t) {
      *total += sum;
      if (count != nullptr) *count += counted;
    });
  }
};

// Enough threads to saturate memory; more partials mean more partial sums to write and add.
constexpr std::int64_t threads_wanted = 65536;
constexpr std::int64_t max_partials = 512;
constexpr std::int64_t min_rows_per_partial = 8;

}  // namespace

void update_half_copy(Stream& stream, DType dtype, Matrix& activations) {
  write_half_copies(stream, dtype, activations.values(), activations.copy(),
                    activations.rows() * activations.stride());
}

void add_bias(Stream& stream, DType dtype, const float* bias, device::Activation act, Matrix& output) {
  dispatch_dtype(dtype, [&]<class T>(T) {
    const std::int64_t vecs_per_row = output.stride() / 8;
    const std::int64_t vecs = output.rows() * vecs_per_row;
    const AddBias<T> body{
        bias, act, output.columns(), vecs, vecs_per_row, output.values(), copy_of<T>(output)};
    launch(stream, blocks_for(vecs, body.threads), body);
  });
}

void activation_backward(Stream& stream, Scratch& scratch, DType dtype, device::Activation act,
                         const Matrix& output, Matrix& d_output, float* d_bias) {
  const std::int64_t rows = d_output.rows();
  const std::int64_t columns = d_output.stride();
  const std::int64_t partials = num_partials(rows, columns);
  float* partial = scratch.get<float>(Scratch::products, partials * columns, "sums of gradients");
  dispatch_dtype(dtype, [&]<class T>(T) {
    const ActivationBackward<T> body{
        output.values(), act, rows, columns / 8, partials, d_output.values(), copy_of<T>(d_output), partial};
    launch(stream, blocks_for(partials * columns / 8, body.threads), body);
  });
  reduce_partials(stream, partial, partials, columns, d_bias);
}

std::int64_t num_partials(std::int64_t rows, std::int64_t columns) {
  const std::int64_t max_for_rows = std::clamp<std::int64_t>(rows / min_rows_per_partial, 1, max_partials);
  return std::clamp<std::int64_t>(threads_wanted / (columns / 8), 1, max_for_rows);
}

void partial_column_sums(Stream& stream, const float* values, std::int64_t rows, std::int64_t columns,
                         std::int64_t partials, float* partial) {
  const PartialColumnSums body{values, rows, columns / 8, partials, partial};
  launch(stream, blocks_for(partials * columns / 8, body.threads), body);
}

void reduce_partials(Stream& stream, const float* partial, std::int64_t partials, std::int64_t columns,
                     float* sums) {
  const ReduceColumnPartials body{partial, partials, columns / 8, sums};
  launch(stream, blocks_for(columns / 8, ReduceColumnPartials::vecs_per_block), body);
}

void add_losses(Stream& stream, const double* per_user, std::int64_t users, double* total,
                std::int64_t* count, std::int64_t counted) {
  launch(stream, 1, AddLosses{per_user, users, total, count, counted});
}

}  // namespace vaecf::cuda
