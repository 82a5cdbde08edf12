#pragma once

#include <vaecf/device/cuda/storage.hpp>
#include <vaecf/math/loss.hpp>

#include <cmath>
#include <cstdint>

#include "device/cuda/kernels/vec8.hpp"

/// Kernels of the output layer: the loss, its gradient by the logits, and operands of later products.
namespace vaecf::cuda {

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

/// Appends a column of ones, whose row of the weight gradient is the gradient of the bias.
template <class T>
struct AppendOnes {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const T* from;  // (rows, stride) with zeros after its columns
  std::int64_t stride;
  std::int64_t columns;
  std::int64_t vecs;          // total number of groups of eight in `to`
  std::int64_t vecs_per_row;  // of `to`: more than `columns` elements
  T* to;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, vecs, [&](std::int64_t e) {
      const std::int64_t row = e / vecs_per_row;
      const std::int64_t first = e % vecs_per_row * 8;
      Vec8 x{};
      if (first < stride) x = load_vec8(from + row * stride + first);
      for (int j = 0; j < 8; ++j) {
        if (first + j == columns) x.at[j] = 1.0F;
      }
      store_vec8(to + 8 * e, x);
    });
  }
};

}  // namespace vaecf::cuda
