#pragma once

#include <vaecf/math/row_math.hpp>

#include <cmath>
#include <limits>

#include "eights.hpp"
#include "storage.hpp"

namespace vaecf::cuda {

/// The largest of some numbers, and the sum of their exponentials over it, found in one pass (Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018). It starts at the lowest finite number:
/// with -infinity, rows that begin with -infinity would become NaN. A NaN, or an infinite number above, makes
/// the sum a NaN.
struct OnlineSoftmax {
  float maximum = -std::numeric_limits<float>::max();
  float sum = 0.0F;

  VAECF_HD void add(const Eight& x) {
    float largest = maximum;
    for (int j = 0; j < 8; ++j) largest = std::fmax(largest, x.at[j]);
    sum *= std::exp(maximum - largest);
    for (int j = 0; j < 8; ++j) sum += std::exp(x.at[j] - largest);
    maximum = largest;
  }
  VAECF_HD void add(float x) {
    const float largest = std::fmax(maximum, x);
    sum = sum * std::exp(maximum - largest) + std::exp(x - largest);
    maximum = largest;
  }
};

/// One user's logits to a block: the loss, and in their place the gradient
///   scale (N_u softmax_i - x_i),   zero in the padding.
/// Not by math::multinomial_gradient, which walks a row number by number and three times; here each logit is
/// read twice, eight at a time, and written once. The user's own logits are kept apart before they are
/// overwritten, so that their gradient, a difference that may be small, is rounded once and not on the way.
template <class T>
struct SoftmaxOfUser {
  // With 32 registers each, eight blocks to a multiprocessor: the 640 users of a chunk are one wave.
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = threads * sizeof(OnlineSoftmax);

  T* logits;  // (users, stride) of a chunk
  std::int64_t stride;
  std::int64_t items;
  std::int64_t first_user;      // of the chunk, in the batch
  const std::int64_t* offsets;  // of the batch
  const std::int32_t* columns;  // likewise
  const StepRecord* record;     // holds the loss scale
  double* nll;                  // (users of the batch)
  float* own_logits;            // (entries of the batch); null: no gradient is wanted

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte* scratch) const {
    T* row = logits + block * stride;
    const std::int64_t user = first_user + block;
    const std::int64_t begin = offsets[user];
    const auto count = static_cast<std::int32_t>(offsets[user + 1] - begin);

    const math::SoftmaxRow softmax = softmax_of(lanes, row, reinterpret_cast<OnlineSoftmax*>(scratch));
    const double below = lanes.sum(count, [&](std::int64_t k) {
      return static_cast<double>(softmax.maximum) - static_cast<double>(widened(row[columns[begin + k]]));
    });
    lanes.each(1, [&](std::int64_t) {  // one logarithm in fp64, which many GPUs are slow at, not 256
      const double log_sum = std::log(static_cast<double>(softmax.sum));
      nll[user] = count > 0 ? static_cast<double>(count) * log_sum + below : 0.0;
    });
    if (own_logits != nullptr) write_gradient(lanes, row, softmax, begin, count);
  }

 private:
  template <class Lanes>
  VAECF_HD math::SoftmaxRow softmax_of(Lanes& lanes, const T* row, OnlineSoftmax* parts) const {
    const T* const rest = row + items / 8 * 8;
    lanes.each(threads, [&](std::int64_t lane) {
      OnlineSoftmax part;
      for (const T* at = row + 8 * lane; at < rest; at += 8 * threads) part.add(load_eight(at));
      if (lane < items % 8) part.add(widened(rest[lane]));
      parts[lane] = part;
    });
    const float maximum = lanes.max(threads, [&](std::int64_t lane) { return parts[lane].maximum; });
    const float sum = lanes.sum(threads, [&](std::int64_t lane) {
      return parts[lane].sum * std::exp(parts[lane].maximum - maximum);
    });
    return {maximum, sum};
  }

  template <class Lanes>
  VAECF_HD void write_gradient(Lanes& lanes, T* row, const math::SoftmaxRow& softmax, std::int64_t begin,
                               std::int32_t count) const {
    lanes.each(count, [&](std::int64_t k) { own_logits[begin + k] = widened(row[columns[begin + k]]); });
    const float scale = record->scale.scale;
    const float factor = scale * (static_cast<float>(count) / softmax.sum);
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
