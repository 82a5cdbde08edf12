#pragma once

#include <vaecf/backend/cuda/storage.hpp>
#include <vaecf/math/loss.hpp>

#include <cmath>

#include "eights.hpp"

namespace vaecf::cuda {

/// One user's logits to a block: the loss, and in their place the gradient
///   scale (N_u softmax_i - x_i),   zero in the padding.
/// Each logit is read twice, eight at a time, and written once. The user's own logits are kept apart before
/// they are overwritten, so that their gradient, a difference that may be small, is rounded once and not on
/// the way.
template <class T>
struct SoftmaxOfUser {
  using Part = math::SoftmaxPart<float>;
  // With 32 registers each, eight blocks to a multiprocessor: the 640 users of a chunk are one wave.
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = threads * sizeof(Part);

  T* logits;  // (users, stride) of a chunk
  std::int64_t stride;
  std::int64_t items;
  std::int64_t first_user;      // of the chunk, in the batch
  const std::int64_t* offsets;  // of the batch
  const std::int32_t* columns;  // likewise
  const StepRecord* record;     // holds the loss scale
  double* nll;                  // (users of the batch)
  float* own_logits;            // (entries of the batch)

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte* scratch) const {
    T* row = logits + block * stride;
    const std::int64_t user = first_user + block;
    const std::int64_t begin = offsets[user];
    const auto count = static_cast<std::int32_t>(offsets[user + 1] - begin);

    const Part softmax = softmax_of(lanes, row, reinterpret_cast<Part*>(scratch));
    const double own = lanes.sum(
        count, [&](std::int64_t k) { return static_cast<double>(widened(row[columns[begin + k]])); });
    // One logarithm in fp64, which many GPUs are slow at, not 256.
    lanes.each(1, [&](std::int64_t) { nll[user] = math::nll(count, softmax, own); });
    write_gradient(lanes, row, softmax, begin, count);
  }

 private:
  template <class Lanes>
  VAECF_HD Part softmax_of(Lanes& lanes, const T* row, Part* parts) const {
    const T* const rest = row + items / 8 * 8;
    lanes.each(threads, [&](std::int64_t lane) {
      Part part;
      for (const T* at = row + 8 * lane; at < rest; at += 8 * threads) part.add(load_eight(at).at);
      if (lane < items % 8) part.add(widened(rest[lane]));
      parts[lane] = part;
    });
    const float maximum = lanes.max(threads, [&](std::int64_t lane) { return parts[lane].maximum; });
    const float sum = lanes.sum(threads, [&](std::int64_t lane) { return parts[lane].sum_below(maximum); });
    return {maximum, sum};
  }

  template <class Lanes>
  VAECF_HD void write_gradient(Lanes& lanes, T* row, const Part& softmax, std::int64_t begin,
                               std::int32_t count) const {
    lanes.each(count, [&](std::int64_t k) { own_logits[begin + k] = widened(row[columns[begin + k]]); });
    const float scale = record->scale.scale;
    const float factor = scale * math::softmax_scale(count, softmax);
    lanes.each(stride / 8, [&](std::int64_t e) {
      Eight x = load_eight(row + 8 * e);
      for (int j = 0; j < 8; ++j) x.at[j] = factor * std::exp(x.at[j] - softmax.maximum);
      store_eight(row + 8 * e, x);
    });
    lanes.each(stride - items, [&](std::int64_t i) { row[items + i] = narrowed<T>(0.0F); });
    lanes.each(count, [&](std::int64_t k) {
      const float p = factor * std::exp(own_logits[begin + k] - softmax.maximum);
      row[columns[begin + k]] = narrowed<T>(p - scale);
    });
  }
};

}  // namespace vaecf::cuda
