#include <vaecf/device/cuda/device.hpp>
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/philox.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/kernels/row_sums.hpp"
#include "device/cuda/platform/launch.hpp"

// Custom kernels instead of cuSPARSE: its products need stored values, but dropout and scale are computed on
// the fly. It cannot fuse bias, tanh and the 16-bit copy. And its product with the transpose, which the
// gradient requires, adds in an order that varies between runs.
namespace vaecf::cuda {
namespace {

using device::Activation;

// At a width of 600, 75 threads have work.
constexpr int row_threads = 96;

/// The dropout of one step. It is not stored: forward and backward pass compute the same Philox values.
struct Dropout {
  const StepRecord* record = nullptr;
  std::uint64_t threshold = 0;
  bool on = false;
  std::uint64_t history_threshold = 0;
  bool of_histories = false;

  VAECF_HD bool keeps(std::uint32_t user_number, std::uint32_t item) const {
    return !on ||
           math::dropout_keeps_item(record->numbers.seed, record->numbers.step, user_number, item, threshold);
  }
  VAECF_HD bool keeps_history(std::uint32_t user_number) const {
    return !of_histories || math::dropout_keeps_history(record->numbers.seed, record->numbers.step,
                                                        user_number, history_threshold);
  }
};

Dropout dropout_of(device::Keep keep, const StepState& step) {
  return {step.record.data(), math::dropout_threshold(keep.items), keep.items < 1.0F,
          math::dropout_threshold(keep.history), keep.history < 1.0F};
}

/// One user per block: output = act(bias + sum of s_ui W_i); with `adds`, the previous output is added before
/// `act`.
template <class T>
struct EncodeUser {
  static constexpr int threads = row_threads;
  static constexpr int scratch_bytes = sizeof(PickedRows<threads>);
  const std::int64_t* offsets;
  const std::int32_t* columns;
  const std::uint32_t* user_numbers;
  Dropout dropout;
  float keep;
  const T* table;     // (items, stride)
  const float* bias;  // null: not added here
  bool tanh;
  std::int64_t stride;
  float* values;  // (users, stride)
  T* copy;
  bool adds;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t user, std::byte* scratch) const {
    const std::int64_t begin = offsets[user];
    const std::int64_t held = offsets[user + 1] - begin;
    const std::int64_t n = dropout.keeps_history(user_numbers[user]) ? held : 0;
    const float weight = math::input_scale(n) / keep;
    float* row = values + user * stride;
    sum_rows(
        lanes, *reinterpret_cast<PickedRows<threads>*>(scratch), n, table, stride, row, adds,
        [&](std::int64_t k) {
          return dropout.keeps(user_numbers[user], static_cast<std::uint32_t>(columns[begin + k]));
        },
        [&](std::int64_t k) {
          return Pick{columns[begin + k], weight};
        },
        [&](std::int64_t column, Eight& sum) {
          const Eight b = bias != nullptr ? load_eight(bias + column) : Eight{};
          for (int c = 0; c < 8; ++c) {
            const float x = sum.at[c] + b.at[c];
            sum.at[c] = tanh ? std::tanh(x) : x;
          }
          store_eight(row + column, sum);
          if constexpr (!std::is_same_v<T, float>) store_eight(copy + user * stride + column, sum);
        });
  }
};

struct ScaleUsers {
  static constexpr int threads = 128;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* offsets;
  const std::uint32_t* user_numbers;
  Dropout dropout;
  std::int64_t users;
  float keep;
  float* scale;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, users, [&](std::int64_t u) {
      const bool kept = dropout.keeps_history(user_numbers[u]);
      scale[u] = kept ? math::input_scale(offsets[u + 1] - offsets[u]) / keep : 0.0F;
    });
  }
};

// An item of many users in a large batch would keep one block busy long after all others. Such an item is
// summed in parts of this many users; the parts are then added in order.
constexpr std::int64_t users_of_part = 1024;

/// Computes the parts: those of item i are [begin[i], begin[i + 1]); empty if one block sums the item.
struct CountParts {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* item_begin;
  std::int64_t items;
  std::int32_t* parts;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte*) const {
    each_of_grid<threads>(lanes, block, items, [&](std::int64_t item) {
      const std::int64_t n = item_begin[item + 1] - item_begin[item];
      parts[item] =
          n > users_of_part ? static_cast<std::int32_t>((n + users_of_part - 1) / users_of_part) : 0;
    });
  }
};

/// Computes the sum of s_ui d_u over users [begin, end) of the transpose, all of one item.
template <class T>
struct SumUsers {
  static constexpr int threads = row_threads;
  const std::uint32_t* item_users;
  const std::uint32_t* user_numbers;
  Dropout dropout;
  const float* scale;  // (users)
  const T* d;          // (users, stride)
  std::int64_t stride;

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::byte* scratch, std::int64_t item, std::int64_t begin,
                           std::int64_t end, float* sums) const {
    sum_rows(
        lanes, *reinterpret_cast<PickedRows<threads>*>(scratch), end - begin, d, stride, sums, false,
        [&](std::int64_t k) {
          return dropout.keeps(user_numbers[item_users[begin + k]], static_cast<std::uint32_t>(item));
        },
        [&](std::int64_t k) {
          const std::uint32_t user = item_users[begin + k];
          return Pick{static_cast<std::int32_t>(user), scale[user]};
        },
        [&](std::int64_t column, const Eight& sum) { store_eight(sums + column, sum); });
  }
};

template <class T>
struct SumPart {
  static constexpr int threads = row_threads;
  // Without the bound, the compiler uses more registers in the 16-bit versions, and spills.
  static constexpr int blocks_at_once = std::is_same_v<T, float> ? 0 : 12;
  static constexpr int scratch_bytes = sizeof(PickedRows<threads>);
  SumUsers<T> users;
  const std::int64_t* item_begin;
  const std::int64_t* part_begin;  // (items + 1)
  std::int64_t items;
  float* partial;  // (parts, stride)

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t part, std::byte* scratch) const {
    if (part >= part_begin[items]) return;
    // Binary search for the last item whose parts begin at or before this one.
    std::int64_t item = 0;
    for (std::int64_t high = items; high - item > 1;) {
      const std::int64_t middle = (item + high) / 2;
      if (part_begin[middle] <= part) {
        item = middle;
      } else {
        high = middle;
      }
    }
    const std::int64_t begin = item_begin[item] + (part - part_begin[item]) * users_of_part;
    const std::int64_t end = item_begin[item + 1];
    users(lanes, scratch, item, begin, begin + users_of_part < end ? begin + users_of_part : end,
          partial + part * users.stride);
  }
};

/// One item per block; writes zeros for an item without users.
template <class T>
struct SumItem {
  static constexpr int threads = row_threads;
  static constexpr int scratch_bytes = sizeof(PickedRows<threads>);
  SumUsers<T> users;
  const std::int64_t* item_begin;
  const std::int64_t* part_begin;  // null: no item has parts
  const float* partial;
  std::int64_t first;  // item of block 0
  float* gradient;     // (items, stride)

  template <class Lanes>
  VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte* scratch) const {
    const std::int64_t item = first + block;
    float* sums = gradient + item * users.stride;
    const std::int64_t part = part_begin != nullptr ? part_begin[item] : 0;
    const std::int64_t end = part_begin != nullptr ? part_begin[item + 1] : 0;
    if (part == end) {
      users(lanes, scratch, item, item_begin[item], item_begin[item + 1], sums);
      return;
    }
    lanes.each(users.stride / 8, [&](std::int64_t eight) {
      Eight sum{};
      for (std::int64_t p = part; p < end; ++p) {
        const Eight more = load_eight(partial + p * users.stride + 8 * eight);
        for (int c = 0; c < 8; ++c) sum.at[c] += more.at[c];
      }
      store_eight(sums + 8 * eight, sum);
    });
  }
};

// Gradient rows are read once per item of the user: as fp32 if they fit into the L2 cache; in 16-bit
// precisions their copy is read if they are larger than this.
constexpr std::int64_t cached_bytes = std::int64_t{16} << 20;

// Limits on gradient reports: maximum number of ranges, and minimum number of items per range.
constexpr std::int64_t most_reports = 8;
constexpr std::int64_t least_items = 4096;

}  // namespace

void Device::encode_input(const Batch& batch, const Parameters& parameters, device::Layer layer,
                          Activation act, device::Keep keep, const StepState& step, Activations& output,
                          const SideInput* side) {
  const NvtxRange nvtx("input: gather");
  output.set_rows(batch.users());
  if (side != nullptr && side->batch.users() != batch.users()) {
    throw std::logic_error("encode_input: the side input must have the same users as the batch");
  }
  with_number(number(), [&]<class T>(T) {
    const auto encode = [&](const Batch& of, int table, device::Keep kept) {
      return EncodeUser<T>{.offsets = of.offsets.data(),
                           .columns = of.columns.data(),
                           .user_numbers = of.user_numbers.data(),
                           .dropout = dropout_of(kept, step),
                           .keep = kept.items,
                           .table = static_cast<const T*>(parameters.operand(table)),
                           .bias = nullptr,
                           .tanh = false,
                           .stride = output.stride(),
                           .values = output.values(),
                           .copy = reinterpret_cast<T*>(output.copy()),
                           .adds = false};
    };
    if (side != nullptr) launch(queue_, output.rows(), encode(side->batch, side->table, 1.0F));
    EncodeUser<T> whole = encode(batch, layer.weight, keep);
    whole.bias = parameters.weights(layer.bias);
    whole.tanh = act == Activation::tanh;
    whole.adds = side != nullptr;
    launch(queue_, output.rows(), whole);
  });
}

void Device::input_gradient(const Batch& batch, const device::ParameterLayout& layout, device::Layer layer,
                            Activation act, device::Keep keep, const StepState& step,
                            const Activations& output, Activations& d_output, FloatBuffer& gradients,
                            const device::GradientReady& ready, const FusedUpdate* fused) {
  const NvtxRange nvtx("backward: input table");
  if (fused != nullptr) throw std::logic_error("input_gradient: this device does not fuse updates");
  const Range bias = layout.tensors[layer.bias].range;
  float* d_bias = gradients.data() + bias.begin;
  if (d_output.rows() == 0) {
    queue_.clear(d_bias, d_output.stride() * 4);
  } else {
    before_activation(queue_, scratch_, number(), act == Activation::tanh, output, d_output, d_bias);
  }
  table_gradient(batch, layout.tensors[layer.weight], keep, &step, d_output, gradients, ready);
  if (ready) ready(bias, mark());
}

void Device::side_gradient(const SideInput& side, const device::ParameterLayout& layout,
                           const Activations& d_before, FloatBuffer& gradients,
                           const device::GradientReady& ready) {
  const NvtxRange nvtx("backward: side table");
  table_gradient(side.batch, layout.tensors[side.table], 1.0F, nullptr, d_before, gradients, ready);
}

void Device::table_gradient(const Batch& b, const device::TensorLayout& table, device::Keep keep,
                            const StepState* step, const Activations& d, FloatBuffer& gradients,
                            const device::GradientReady& ready) {
  const std::int64_t items = table.spec.rows;
  const std::int64_t users = b.users();
  if (!b.has_transpose) throw std::logic_error("input_gradient: the batch must have its transpose");
  if (d.rows() != users || items != b.items) {
    throw std::logic_error("input_gradient: gradient, batch and table must have the same users and items");
  }
  auto* scale = scratch_.get<float>(Scratch::per_user, users, "the scales of users' rows");
  const Dropout dropout = step != nullptr ? dropout_of(keep, *step) : Dropout{};
  launch(queue_, blocks_for(users, ScaleUsers::threads),
         ScaleUsers{b.offsets.data(), b.user_numbers.data(), dropout, users, keep.items, scale});

  const std::int64_t* part_begin = nullptr;
  float* partial = nullptr;
  // An upper bound: an item's last part may have few users, but then it is not its only one.
  const std::int64_t parts = users > users_of_part ? 2 * b.max_entries / users_of_part : 0;
  if (parts > 0) {
    auto* counts = scratch_.get<std::int32_t>(Scratch::flags, items, "parts of items");
    auto* begin = scratch_.get<std::int64_t>(Scratch::per_entry, items + 1, "parts of items");
    partial = scratch_.get<float>(Scratch::products, parts * d.stride(), "sums of gradients");
    launch(queue_, blocks_for(items, CountParts::threads), CountParts{b.item_begin.data(), items, counts});
    primitives_.running_sum(queue_, counts, items, begin);
    part_begin = begin;
  }

  const Number reads = users * d.stride() * 4 > cached_bytes ? number() : Number::fp32;
  with_number(reads, [&]<class T>(T) {
    const SumUsers<T> sum{.item_users = b.item_users.data(),
                          .user_numbers = b.user_numbers.data(),
                          .dropout = dropout,
                          .scale = scale,
                          .d = static_cast<const T*>(reads == Number::fp32 ? d.values() : d.operand()),
                          .stride = d.stride()};
    launch(queue_, parts, SumPart<T>{sum, b.item_begin.data(), part_begin, items, partial});
    const std::int64_t at_once =
        ready ? std::max(least_items, (items + most_reports - 1) / most_reports) : items;
    for (std::int64_t first = 0; first < items; first += at_once) {
      const std::int64_t end = std::min(first + at_once, items);
      launch(queue_, end - first,
             SumItem<T>{sum, b.item_begin.data(), part_begin, partial, first,
                        gradients.data() + table.range.begin});
      if (!ready) continue;
      const std::int64_t begin = table.range.begin + first * table.stride;
      ready({begin, end == items ? table.range.end : begin + at_once * table.stride}, mark());
    }
  });
}

}  // namespace vaecf::cuda
