#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/scores.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

struct Narrow {
  const std::int64_t* from;
  std::int32_t* to;
  VAECF_HD void operator()(std::int64_t i) const { to[i] = static_cast<std::int32_t>(from[i]); }
};

/// Gives the excluded items of each user the score -infinity.
struct Exclude {
  const std::int32_t* excluded;
  std::int64_t count;
  float* scores;
  std::int64_t stride;

  VAECF_HD void operator()(std::int64_t i) const {
    scores[i / count * stride + excluded[i % count]] = -std::numeric_limits<float>::infinity();
  }
};

}  // namespace

std::unique_ptr<device::ItemMatrix> Device::make_item_matrix(
    std::int64_t items,
    const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows) {
  // Products, lists and the users' rows need memory too.
  if (ItemMatrix::bytes(items) > gpu_.free_bytes() - gpu_.total_bytes() / 32) return nullptr;
  auto matrix = std::make_unique<ItemMatrix>(*this, gpu_, items, options_.deterministic);
  const std::int64_t stride = matrix->scores.stride();
  const std::int64_t step = std::max<std::int64_t>(1, (std::int64_t{1} << 22) / stride);
  std::vector<float> logical;
  PinnedArray<float> rows(std::min(step, items) * stride);
  std::fill_n(rows.data(), rows.size(), 0.0F);
  for (std::int64_t begin = 0; begin < items; begin += step) {
    const std::int64_t end = std::min(items, begin + step);
    logical.resize(static_cast<std::size_t>((end - begin) * items));
    read_rows(begin, end, logical);
    stream_.synchronize();  // until the last block was copied
    for (std::int64_t i = 0; i < end - begin; ++i)
      std::copy_n(logical.begin() + i * items, items, rows.data() + i * stride);
    stream_.copy_h2d(matrix->values.data() + begin * stride, rows.data(), (end - begin) * stride * 4);
  }
  stream_.synchronize();
  return matrix;
}

void ItemMatrix::exclude_items(std::span<const std::int32_t> list) {
  Stream& stream = device_.stream_;
  stream.synchronize();  // until the last list is no longer used
  excluded = DeviceArray<std::int32_t>(device_.gpu_, std::ssize(list), what);
  if (list.empty()) return;
  stream.copy_h2d(excluded.data(), list.data(), excluded.bytes());
  stream.synchronize();
}

void ItemMatrix::score(const device::Batch& batch_base, std::int64_t entries) {
  const auto& batch = own<Batch>(batch_base);
  const NvtxRange nvtx("scores of items");
  Stream& stream = device_.stream_;
  const std::int64_t users = batch.users();
  if (batch.model_parallel().count() != 1 || batch.items != items)
    throw std::logic_error("ItemMatrix::score: needs a batch of the matrix's items");
  scores.set_rows(users);
  if (users == 0) return;
  if (entries == 0) {
    stream.memset_zero(scores.values(), users * scores.stride() * 4);
  } else {
    if (ones.size() < entries) {
      stream.synchronize();
      ones = Buffer();
      ones = Buffer(DeviceArray<float>(device_.gpu_, entries, what));
      device_.fill(ones, 1.0F);
    }
    launch_elements(stream, users + 1, Narrow{batch.offsets.data(), offsets.data()});
    products.run(stream, {offsets.data(), batch.columns.data(), ones.data(), users, items, entries},
                 values.data(), scores.stride(), items, scores.values(), scores.stride());
  }
  const std::int64_t count = excluded.size();
  if (count == 0) return;
  launch_elements(stream, count * users, Exclude{excluded.data(), count, scores.values(), scores.stride()});
}

void ItemMatrix::compute_metrics(const device::Batch& batch, const device::UserRows& targets, Range rows,
                                 std::span<const math::Metric> metrics, device::MetricValues& to) {
  Scorer scorer(device_, own<Batch>(batch), *this);
  device_.rank_and_measure(scorer, own<UserRows>(targets), rows, metrics, own<MetricValues>(to));
}

void ItemMatrix::top_k(const device::Batch& batch, int k, std::span<std::int32_t> best,
                       std::span<float> best_scores) {
  Scorer scorer(device_, own<Batch>(batch), *this);
  device_.sort_scores(scorer, k, best, best_scores);
}

}  // namespace vaecf::cuda
