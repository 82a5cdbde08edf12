#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/platform/launch.hpp"

#include <vaecf/math/elementwise.hpp>

#include <algorithm>
#include <cmath>

#include "device/cuda/kernels/eights.hpp"

namespace vaecf::cuda {
namespace {

template <class T>
T* copy_of(Activations& activations) {
  return reinterpret_cast<T*>(activations.copy());
}

VAECF_HD inline void add(const Eight& numbers, Eight& sums) {
  for (int j = 0; j < 8; ++j) sums.at[j] += numbers.at[j];
}

template <class T>
struct AddBias {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const float* bias;
  bool tanh;
  std::int64_t eights;  // total number of groups of eight
  std::int64_t eights_of_row;
  float* values;
  T* copy;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, eights, [&](std::int64_t e) {
      Eight y = load_eight(values + 8 * e);
      const Eight b = load_eight(bias + 8 * (e % eights_of_row));
      for (int j = 0; j < 8; ++j) {
        const float x = y.at[j] + b.at[j];
        y.at[j] = tanh ? std::tanh(x) : x;
      }
      store_eight(values + 8 * e, y);
      if constexpr (!std::is_same_v<T, float>) store_eight(copy + 8 * e, y);
    });
  }
};

// Computes the gradient before the activation and column sums. Each thread has eight columns of one strand:
// thread w starts at the w-th group of eight and continues `strands` rows further down.
template <class T>
struct BeforeActivation {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const float* output;
  bool tanh;
  std::int64_t rows;
  std::int64_t eights;  // groups of eight per row
  std::int64_t strands;
  float* values;
  T* copy;
  float* partial;  // (strands, 8 * eights)

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, strands * eights, [&](std::int64_t w) {
      Eight sums{};
      for (std::int64_t at = 8 * w; at < 8 * rows * eights; at += 8 * strands * eights) {
        Eight d = load_eight(values + at);
        if (tanh) {
          const Eight y = load_eight(output + at);
          for (int j = 0; j < 8; ++j) d.at[j] = math::tanh_backward(d.at[j], y.at[j]);
          store_eight(values + at, d);
        }
        if constexpr (!std::is_same_v<T, float>) store_eight(copy + at, d);
        add(d, sums);
      }
      store_eight(partial + 8 * w, sums);
    });
  }
};

template <class T>
struct SumStrands {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const T* numbers;
  std::int64_t rows;
  std::int64_t eights;  // groups of eight per row
  std::int64_t strands;
  bool first;
  float* partial;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, strands * eights, [&](std::int64_t w) {
      Eight sums{};
      if (!first) sums = load_eight(partial + 8 * w);
      constexpr int together = 4;  // rows loaded concurrently
      const T* const end = numbers + 8 * rows * eights;
      const std::int64_t step = 8 * strands * eights;
      const T* row = numbers + 8 * w;
      for (; end - row > (together - 1) * step; row += together * step) {
        Eight d[together];
        for (int i = 0; i < together; ++i) d[i] = load_eight(row + i * step);
        for (int i = 0; i < together; ++i) add(d[i], sums);
      }
      for (; row < end; row += step) add(load_eight(row), sums);
      store_eight(partial + 8 * w, sums);
    });
  }
};

// Adds the strands. Each block has 128 columns, with 16 threads for each eight of them.
struct AddStrands {
  static constexpr int threads = 256;
  static constexpr int eights_of_block = 16;
  static constexpr int shares = threads / eights_of_block;
  static constexpr int scratch_bytes = threads * sizeof(Eight);
  const float* partial;
  std::int64_t strands;
  std::int64_t eights;
  float* sums;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte* scratch) const {
    float* shared = reinterpret_cast<float*>(scratch);  // (shares, 128)
    const std::int64_t first = block * eights_of_block;
    const std::int64_t mine = eights - first < eights_of_block ? eights - first : eights_of_block;
    lanes.each(threads, [&](std::int64_t i) {
      const std::int64_t e = i % eights_of_block;
      if (e >= mine) return;
      Eight sum{};
      for (std::int64_t strand = i / eights_of_block; strand < strands; strand += shares) {
        add(load_eight(partial + 8 * (strand * eights + first + e)), sum);
      }
      store_eight(shared + 8 * i, sum);
    });
    lanes.each(8 * mine, [&](std::int64_t column) {
      float sum = 0.0F;
      for (int share = 0; share < shares; ++share) sum += shared[8 * eights_of_block * share + column];
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

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t, std::byte*) const {
    const double sum = lanes.sum(users, [&](std::int64_t user) { return per_user[user]; });
    lanes.each(1, [&](std::int64_t) {
      *total += sum;
      if (count != nullptr) *count += users;
    });
  }
};

// Enough threads to saturate memory; more strands mean more partial sums to write and add.
constexpr std::int64_t threads_wanted = 65536;
constexpr std::int64_t most_strands = 512;
constexpr std::int64_t rows_of_strand = 8;

}  // namespace

void renew_copy(Queue& queue, Number number, Activations& activations) {
  make_copies(queue, number, activations.values(), activations.copy(),
              activations.rows() * activations.stride());
}

void add_bias(Queue& queue, Number number, const float* bias, bool tanh, Activations& output) {
  with_number(number, [&]<class T>(T) {
    const std::int64_t eights_of_row = output.stride() / 8;
    const std::int64_t eights = output.rows() * eights_of_row;
    const AddBias<T> body{bias, tanh, eights, eights_of_row, output.values(), copy_of<T>(output)};
    launch(queue, blocks_for(eights, body.threads), body);
  });
}

void before_activation(Queue& queue, Scratch& scratch, Number number, bool tanh, const Activations& output,
                       Activations& d_output, float* d_bias) {
  const std::int64_t rows = d_output.rows();
  const std::int64_t columns = d_output.stride();
  const std::int64_t strands = strands_for(rows, columns);
  float* partial = scratch.get<float>(Scratch::products, strands * columns, "sums of gradients");
  with_number(number, [&]<class T>(T) {
    const BeforeActivation<T> body{
        output.values(), tanh, rows, columns / 8, strands, d_output.values(), copy_of<T>(d_output), partial};
    launch(queue, blocks_for(strands * columns / 8, body.threads), body);
  });
  add_strands(queue, partial, strands, columns, d_bias);
}

std::int64_t strands_for(std::int64_t rows, std::int64_t columns) {
  const std::int64_t most = std::clamp<std::int64_t>(rows / rows_of_strand, 1, most_strands);
  return std::clamp<std::int64_t>(threads_wanted / (columns / 8), 1, most);
}

void sum_strands(Queue& queue, Number number, const void* numbers, std::int64_t rows, std::int64_t columns,
                 std::int64_t strands, bool first, float* partial) {
  with_number(number, [&]<class T>(T) {
    const SumStrands<T> body{static_cast<const T*>(numbers), rows, columns / 8, strands, first, partial};
    launch(queue, blocks_for(strands * columns / 8, body.threads), body);
  });
}

void add_strands(Queue& queue, const float* partial, std::int64_t strands, std::int64_t columns,
                 float* sums) {
  const AddStrands body{partial, strands, columns / 8, sums};
  launch(queue, blocks_for(columns / 8, AddStrands::eights_of_block), body);
}

void add_losses(Queue& queue, const double* per_user, std::int64_t users, double* total,
                std::int64_t* count) {
  launch(queue, 1, AddLosses{per_user, users, total, count});
}

}  // namespace vaecf::cuda
