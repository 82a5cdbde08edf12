
#include <thread>
#include <type_traits>

#include "device/cuda/device.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

constexpr std::int64_t block_rows = device::SpdInverse::block;

/// Writes the negative of `from` (rows, columns) to `to`, which has `stride` elements between rows. Both may
/// be the same memory.
struct Negate {
  const float* from;
  std::int64_t columns;
  float* to;
  std::int64_t stride;
  VAECF_HD void operator()(std::int64_t i) const { to[i / columns * stride + i % columns] = -from[i]; }
};

void negate(Stream& stream, const float* from, std::int64_t rows, std::int64_t columns, float* to,
            std::int64_t stride) {
  launch_elements(stream, rows * columns, Negate{from, columns, to, stride});
}

/// One item i per block, in the order of its users: adds w_u x_ui x_uj of the users that it has in common
/// with each other item j to the item's row. The items of a user are different, so no two threads write to
/// one element. Custom kernel instead of cuSPARSE, which needs a dense block of X and I / n times as many
/// operations, with n items per user.
struct AddGramRow {
  static constexpr int threads = 128;
  const std::int64_t* item_offsets;  // users[item_offsets[r] - item_offsets[0]] is the first of row r
  const std::int32_t* users;
  const float* user_values;  // like `users`; null: all are 1
  const std::int64_t* user_offsets;
  const std::int32_t* items;
  const float* item_values;  // like `items`; null: all are 1
  const float* weights;      // of users
  std::int64_t first;        // item of row 0
  float* rows;
  std::int64_t stride;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    float* row = rows + block * stride;
    const std::int64_t end = item_offsets[block + 1] - item_offsets[0];
    for (std::int64_t k = item_offsets[block] - item_offsets[0]; k < end; ++k) {
      const std::int64_t begin = user_offsets[users[k]];
      const float weight = weights[users[k]] * value_at(user_values, k);
      thread_group.each(user_offsets[users[k] + 1] - begin, [&](std::int64_t i) {
        const std::int32_t other = items[begin + i];
        if (other != first + block) row[other] += weight * value_at(item_values, begin + i);
      });
    }
  }
};

/// Adds X' diag(w) X without its diagonal to `rows`, those of the items `own`.
void add_gram(Gpu& gpu, Stream& stream, const device::GramInput& x, Range own, float* rows,
              std::int64_t stride) {
  if (x.items.entries() == 0) return;
  const CsrView own_items = x.items.subset(own);
  const auto upload = [&](auto values) {
    DeviceArray<std::remove_const_t<typename decltype(values)::element_type>> array(
        gpu, static_cast<std::int64_t>(values.size()), "the train users");
    stream.copy_h2d(array.data(), values.data(), array.bytes());
    return array;
  };
  const auto item_offsets = upload(own_items.offsets);
  const auto users = upload(own_items.columns);
  const auto user_values = upload(own_items.values);
  const auto user_offsets = upload(x.users.offsets);
  const auto items = upload(x.users.columns);
  const auto item_values = upload(x.users.values);
  const auto weights = upload(x.weights);
  launch(stream, own.size(),
         AddGramRow{.item_offsets = item_offsets.data(),
                    .users = users.data(),
                    .user_values = user_values.data(),
                    .user_offsets = user_offsets.data(),
                    .items = items.data(),
                    .item_values = item_values.data(),
                    .weights = weights.data(),
                    .first = own.begin,
                    .rows = rows,
                    .stride = stride});
  stream.synchronize();  // before the arrays are released
}

/// Writes the inverse of `a`, which is overwritten. Returns false if `a` is not positive definite.
bool invert_pivot(int threads, device::Block& a, device::Block& work, device::Block& inverse) {
  if (!device::factorize(a)) return false;
  const std::int64_t parts = std::clamp<std::int64_t>(threads, 1, block_rows / 16);
  std::vector<std::jthread> others;
  const auto run = [&](std::int64_t part) {
    device::invert_columns(a, {block_rows * part / parts, block_rows * (part + 1) / parts}, work, inverse);
  };
  for (std::int64_t part = 1; part < parts; ++part) others.emplace_back(run, part);
  run(0);
  return true;
}

}  // namespace

bool Device::fits(const device::SpdInverse& matrix, const device::GramInput& x) const {
  const std::int64_t rows = matrix.blocks_of(matrix.rank()).size() * block_rows;
  const std::int64_t elements = (rows + block_rows) * (matrix.stride() + block_rows);
  const std::int64_t matrices = x.users.values.empty() ? 2 : 4;
  const std::int64_t interactions =
      matrices * x.users.entries() + 3 * x.users.rows() + 2 * x.items.rows() + 4;
  // The products' kernels and workspace need memory too.
  return (elements + interactions) * static_cast<std::int64_t>(sizeof(float)) <=
         gpu_.free_bytes() - gpu_.total_bytes() / 32;
}

device::Inversion Device::invert(device::SpdInverse& matrix, const device::GramInput& x,
                                 const device::SpdInverse::Broadcast& broadcast,
                                 const device::SpdInverse::Progress& progress) {
  constexpr const char* what = "the inverse of X'X + diagonal";
  constexpr std::int64_t block = block_rows;
  const std::int64_t stride = matrix.stride();
  const std::int64_t blocks = stride / block;
  const Range own = matrix.blocks_of(matrix.rank());
  const std::int64_t own_rows = own.size() * block;
  // Every product has a shape and an algorithm that do not depend on the number of ranks.
  Matmuls products(gpu_, true, Fp32Products::exact);
  DeviceArray<float> rows(gpu_, own_rows * stride, what);
  DeviceArray<float> pivot_rows(gpu_, block * stride, what);  // A_K
  DeviceArray<float> left(gpu_, own_rows * block, what);      // -A_JK D of the own blocks J; D of block K
  DeviceArray<float> pivot(gpu_, block * block, what);        // -D
  PinnedArray<float> host_rows(block * stride);
  PinnedArray<float> host_pivot(block * block);
  device::Block factor(block * block), work(block * block), inverse(block * block);
  const std::span<float> elements = matrix.elements();
  stream_.copy_h2d(rows.data(), elements.data(), rows.bytes());
  add_gram(gpu_, stream_, x, matrix.rows_of(matrix.rank()), rows.data(), stride);

  // The algorithm of device::SpdInverse::invert(), but all blocks are updated.
  for (std::int64_t k = 0; k < blocks; ++k) {
    const std::int64_t first = k * block;  // of the rows and columns of block K
    const bool owns = k >= own.begin && k < own.end;
    if (owns) {
      stream_.copy(pivot_rows.data(), rows.data() + (k - own.begin) * block * stride, pivot_rows.bytes());
      stream_.copy_d2h(host_rows.data(), pivot_rows.data(), pivot_rows.bytes());
    }
    stream_.synchronize();  // until the copies from and to host memory are done
    if (matrix.ranks() > 1)
      broadcast({host_rows.data(), static_cast<std::size_t>(host_rows.size())}, matrix.owner_of(k));
    if (!owns) stream_.copy_h2d(pivot_rows.data(), host_rows.data(), pivot_rows.bytes());

    for (std::int64_t i = 0; i < block; ++i)
      for (std::int64_t j = 0; j < block; ++j)
        factor[i * block + j] = host_rows.data()[i * stride + first + j];
    if (!invert_pivot(matrix.threads(), factor, work, inverse)) return device::Inversion::indefinite;
    for (std::int64_t i = 0; i < block * block; ++i) host_pivot.data()[i] = static_cast<float>(-inverse[i]);
    stream_.copy_h2d(pivot.data(), host_pivot.data(), pivot.bytes());

    // R = D A_K in rows K, A_J + B A_K with B = -A_JK D in the others.
    for (std::int64_t j = own.begin; j < own.end; ++j) {
      float* row = rows.data() + (j - own.begin) * block * stride;
      float* factors = left.data() + (j - own.begin) * block * block;
      if (j == k) {
        negate(stream_, pivot.data(), block, block, factors, block);
      } else {
        products.run(stream_, {.m = block, .n = block, .k = block, .lda = stride}, row + first, pivot.data(),
                     factors);
      }
      products.run(stream_, {.m = block, .n = stride, .k = block, .accumulate = j != k}, factors,
                   pivot_rows.data(), row);
    }
    // Columns K become A_JK D, and -D in rows K.
    if (own_rows > 0) negate(stream_, left.data(), own_rows, block, rows.data() + first, stride);
    if (!progress(k + 1, blocks)) {
      stream_.synchronize();  // before the memory is released
      return device::Inversion::stopped;
    }
  }
  // All blocks are swept: the rows contain minus the inverse.
  negate(stream_, rows.data(), own_rows, stride, rows.data(), stride);
  stream_.copy_d2h(elements.data(), rows.data(), rows.bytes());
  stream_.synchronize();
  return device::Inversion::done;
}

}  // namespace vaecf::cuda
