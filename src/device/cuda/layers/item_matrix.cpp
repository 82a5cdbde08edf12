#include <vaecf/device/cuda/device.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

struct Narrow {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* from;
  std::int64_t size;
  std::int32_t* to;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, size,
                              [&](std::int64_t i) { to[i] = static_cast<std::int32_t>(from[i]); });
  }
};

/// Gives the excluded items of each user the score -infinity.
struct Exclude {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::int32_t* excluded;
  std::int64_t count;
  std::int64_t users;
  float* scores;
  std::int64_t stride;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, count * users, [&](std::int64_t i) {
      scores[i / count * stride + excluded[i % count]] = -std::numeric_limits<float>::infinity();
    });
  }
};

}  // namespace

std::unique_ptr<ItemMatrix> Device::make_item_matrix(
    std::int64_t items,
    const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows) {
  // Products, lists and the users' rows need memory too.
  if (ItemMatrix::bytes(items) > gpu_.free_bytes() - gpu_.total_bytes() / 32) return nullptr;
  auto matrix = std::make_unique<ItemMatrix>(gpu_, items, options_.deterministic);
  const std::int64_t step = std::max<std::int64_t>(1, (std::int64_t{1} << 22) / matrix->stride);
  std::vector<float> logical;
  PinnedArray<float> rows(std::min(step, items) * matrix->stride);
  std::fill_n(rows.data(), rows.size(), 0.0F);
  for (std::int64_t begin = 0; begin < items; begin += step) {
    const std::int64_t end = std::min(items, begin + step);
    logical.resize(static_cast<std::size_t>((end - begin) * items));
    read_rows(begin, end, logical);
    stream_.synchronize();  // until the last block was copied
    for (std::int64_t i = 0; i < end - begin; ++i)
      std::copy_n(logical.begin() + i * items, items, rows.data() + i * matrix->stride);
    stream_.copy_h2d(matrix->values.data() + begin * matrix->stride, rows.data(),
                     (end - begin) * matrix->stride * 4);
  }
  stream_.synchronize();
  return matrix;
}

void Device::exclude_items(ItemMatrix& matrix, std::span<const std::int32_t> items) {
  stream_.synchronize();  // until the last list is no longer used
  matrix.excluded = DeviceArray<std::int32_t>(gpu_, std::ssize(items), ItemMatrix::what);
  if (items.empty()) return;
  stream_.copy_h2d(matrix.excluded.data(), items.data(), matrix.excluded.bytes());
  stream_.synchronize();
}

void Device::score_items(const Batch& batch, std::int64_t entries, ItemMatrix& matrix) {
  const NvtxRange nvtx("scores of items");
  const std::int64_t users = batch.users();
  if (batch.slices().count() != 1 || batch.items != matrix.items)
    throw std::logic_error("score_items: needs a batch of the matrix's items");
  matrix.scores.set_rows(users);
  if (users == 0) return;
  if (entries == 0) {
    stream_.memset_zero(matrix.scores.values(), users * matrix.scores.stride() * 4);
  } else {
    if (matrix.ones.size() < entries) {
      stream_.synchronize();
      matrix.ones = FloatBuffer();
      matrix.ones = FloatBuffer(gpu_, entries, ItemMatrix::what);
      fill(matrix.ones, 1.0F);
    }
    launch(stream_, blocks_for(users + 1, Narrow::threads),
           Narrow{batch.offsets.data(), users + 1, matrix.offsets.data()});
    matrix.products.run(
        stream_,
        {matrix.offsets.data(), batch.columns.data(), matrix.ones.data(), users, matrix.items, entries},
        matrix.values.data(), matrix.stride, matrix.items, matrix.scores.values(), matrix.scores.stride());
  }
  const std::int64_t excluded = matrix.excluded.size();
  if (excluded == 0) return;
  launch(stream_, blocks_for(excluded * users, Exclude::threads),
         Exclude{matrix.excluded.data(), excluded, users, matrix.scores.values(), matrix.scores.stride()});
}

}  // namespace vaecf::cuda
