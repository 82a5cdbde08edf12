#include <vaecf/device/cuda/device.hpp>
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/philox.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/kernels/row_sums.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/tune.hpp"

// Custom kernels instead of cuSPARSE: its products need stored values, but dropout and scale are computed on
// the fly. It cannot fuse bias, tanh and the 16-bit copy. And its product with the transpose, which the
// gradient requires, adds in an order that varies between runs.
namespace vaecf::cuda {
namespace {

using device::Activation;

/// The dropout of one step. It is not stored: forward and backward pass compute the same Philox values.
struct Dropout {
  const DeviceStepState* state = nullptr;
  std::uint64_t threshold = 0;
  bool on = false;
  std::uint64_t history_threshold = 0;
  bool of_histories = false;

  VAECF_HD bool keeps(std::uint32_t user_number, std::uint32_t item) const {
    return !on ||
           math::dropout_keeps_item(state->params.seed, state->params.step, user_number, item, threshold);
  }
  VAECF_HD bool keeps_history(std::uint32_t user_number) const {
    return !of_histories || math::dropout_keeps_history(state->params.seed, state->params.step, user_number,
                                                        history_threshold);
  }
};

Dropout dropout_of(device::InputDropout input_dropout, const StepState& step) {
  return {step.device_state.data(), math::dropout_threshold(input_dropout.item_keep_prob),
          input_dropout.item_keep_prob < 1.0F, math::dropout_threshold(input_dropout.history_keep_prob),
          input_dropout.history_keep_prob < 1.0F};
}

/// One user per block: output = act(bias + sum of s_ui W_i); with `adds`, the previous output is added before
/// `act`.
template <class T, int THREADS>
struct EncodeUser {
  static constexpr int threads = THREADS;
  static constexpr int scratch_bytes = sizeof(CompactedRows<threads>);
  const std::int64_t* offsets;
  const std::int32_t* columns;
  const std::uint32_t* user_numbers;
  Dropout dropout;
  float keep_prob;
  const T* table;     // (items, stride)
  const float* bias;  // null: not added here
  bool tanh;
  std::int64_t stride;
  float* values;  // (users, stride)
  T* copy;
  bool adds;
  int max_groups;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t user, std::byte* scratch) const {
    const std::int64_t begin = offsets[user];
    const std::int64_t held = offsets[user + 1] - begin;
    const std::int64_t n = dropout.keeps_history(user_numbers[user]) ? held : 0;
    const float weight = math::input_scale(n) / keep_prob;
    float* row = values + user * stride;
    sum_rows(
        group, *reinterpret_cast<CompactedRows<threads>*>(scratch), n, table, stride, row, adds, max_groups,
        [&](std::int64_t k) {
          return dropout.keeps(user_numbers[user], static_cast<std::uint32_t>(columns[begin + k]));
        },
        [&](std::int64_t k) {
          return WeightedRow{columns[begin + k], weight};
        },
        [&](std::int64_t column, Vec8& sum) {
          const Vec8 b = bias != nullptr ? load_vec8(bias + column) : Vec8{};
          for (int c = 0; c < 8; ++c) {
            const float x = sum.at[c] + b.at[c];
            sum.at[c] = tanh ? std::tanh(x) : x;
          }
          store_vec8(row + column, sum);
          if constexpr (!std::is_same_v<T, float>) store_vec8(copy + user * stride + column, sum);
        });
  }
};

/// The weights of users' rows in the sums.
struct UserScales {
  const std::int64_t* offsets;
  const std::uint32_t* user_numbers;
  Dropout dropout;
  float keep_prob;
  const float* computed = nullptr;  // (users); null: computed again for every row

  VAECF_HD float operator()(std::int64_t user) const {
    if (computed != nullptr) return computed[user];
    if (!dropout.keeps_history(user_numbers[user])) return 0.0F;
    return math::input_scale(offsets[user + 1] - offsets[user]) / keep_prob;
  }
};

struct ScaleUsers {
  static constexpr int threads = 128;
  static constexpr int scratch_bytes = 0;
  UserScales scales;
  std::int64_t users;
  float* computed;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, users, [&](std::int64_t u) { computed[u] = scales(u); });
  }
};

// An item of many users in a large batch would keep one block busy long after all others. So in batches of
// more users than this, such an item is summed in parts; the parts are then added in order.
constexpr std::int64_t users_without_parts = 1024;

/// Returns the number of users of a part.
std::int64_t part_size() {
  return tune().groups > 1 ? 256 : 1024;
}

/// Calls f with the number of threads of the blocks that sum long rows, by the switch `groups`.
template <class F>
void dispatch_row_threads(F&& f) {
  if (tune().groups <= 1) return f(std::integral_constant<int, narrow_threads>());
  if (tune().groups <= 4) return f(std::integral_constant<int, 320>());
  f(std::integral_constant<int, 640>());
}

/// Computes the parts: those of item i are [begin[i], begin[i + 1]); empty if one block sums the item.
struct CountParts {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const std::int64_t* item_begin;
  std::int64_t items;
  std::int64_t users_of_part;
  std::int32_t* parts;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, items, [&](std::int64_t item) {
      const std::int64_t n = item_begin[item + 1] - item_begin[item];
      parts[item] =
          n > users_of_part ? static_cast<std::int32_t>((n + users_of_part - 1) / users_of_part) : 0;
    });
  }
};

/// Computes the sum of s_ui d_u over users [begin, end) of the transpose, all of one item.
template <class T>
struct SumUsers {
  const std::uint32_t* item_users;
  const std::uint32_t* user_numbers;
  Dropout dropout;
  UserScales scale;
  const T* d;  // (users, stride)
  std::int64_t stride;
  int max_groups;

  template <int threads, class Group>
  VAECF_HD void sum(Group& group, std::byte* scratch, std::int64_t item, std::int64_t begin, std::int64_t end,
                    float* sums) const {
    sum_rows(
        group, *reinterpret_cast<CompactedRows<threads>*>(scratch), end - begin, d, stride, sums, false,
        max_groups,
        [&](std::int64_t k) {
          return dropout.keeps(user_numbers[item_users[begin + k]], static_cast<std::uint32_t>(item));
        },
        [&](std::int64_t k) {
          const std::uint32_t user = item_users[begin + k];
          return WeightedRow{static_cast<std::int32_t>(user), scale(user)};
        },
        [&](std::int64_t column, const Vec8& sum) { store_vec8(sums + column, sum); });
  }
};

template <class T, int THREADS>
struct SumPart {
  static constexpr int threads = THREADS;
  // Without the bound, the compiler uses more registers in the narrow 16-bit versions, and spills.
  static constexpr int blocks_at_once = std::is_same_v<T, float> || THREADS != narrow_threads ? 0 : 12;
  static constexpr int scratch_bytes = sizeof(CompactedRows<threads>);
  SumUsers<T> users;
  const std::int64_t* item_begin;
  const std::int64_t* part_begin;  // (items + 1)
  std::int64_t items;
  std::int64_t users_of_part;
  float* partial;  // (parts, stride)

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t part, std::byte* scratch) const {
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
    users.template sum<threads>(group, scratch, item, begin,
                                begin + users_of_part < end ? begin + users_of_part : end,
                                partial + part * users.stride);
  }
};

/// One item per block; writes zeros for an item without users.
template <class T>
struct SumItem {
  static constexpr int threads = narrow_threads;  // most items have few users
  static constexpr int scratch_bytes = sizeof(CompactedRows<threads>);
  SumUsers<T> users;
  const std::int64_t* item_begin;
  const std::int64_t* part_begin;  // null: no item has parts
  const float* partial;
  std::int64_t first;  // item of block 0
  float* gradient;     // (items, stride)

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte* scratch) const {
    const std::int64_t item = first + block;
    float* sums = gradient + item * users.stride;
    const std::int64_t part = part_begin != nullptr ? part_begin[item] : 0;
    const std::int64_t end = part_begin != nullptr ? part_begin[item + 1] : 0;
    if (part == end) {
      users.template sum<threads>(group, scratch, item, item_begin[item], item_begin[item + 1], sums);
      return;
    }
    group.each(users.stride / 8, [&](std::int64_t eight) {
      Vec8 sum{};
      for (std::int64_t p = part; p < end; ++p) {
        const Vec8 more = load_vec8(partial + p * users.stride + 8 * eight);
        for (int c = 0; c < 8; ++c) sum.at[c] += more.at[c];
      }
      store_vec8(sums + 8 * eight, sum);
    });
  }
};

// Gradient rows are read once per item of the user: as fp32 if they fit into the L2 cache; in 16-bit
// precisions their copy is read if they are larger than this.
constexpr std::int64_t cached_bytes = std::int64_t{16} << 20;

// Limits on gradient reports: maximum number of ranges, and minimum number of items per range.
constexpr std::int64_t max_reports = 8;
constexpr std::int64_t min_items = 4096;

}  // namespace

void Device::sparse_linear(const Batch& batch, const Parameters& parameters, device::Layer layer,
                           Activation act, device::InputDropout input_dropout, const StepState& step,
                           Activations& output, const SideFeatures* side) {
  const NvtxRange nvtx("input: gather");
  output.set_rows(batch.users());
  if (side != nullptr && side->batch.users() != batch.users()) {
    throw std::logic_error("sparse_linear: the side input must have the same users as the batch");
  }
  dispatch_dtype(dtype(), [&]<class T>(T) {
    dispatch_row_threads([&](auto threads) {
      using Encode = EncodeUser<T, threads()>;
      const auto encode = [&](const Batch& of, int table, device::InputDropout kept) {
        return Encode{.offsets = of.offsets.data(),
                      .columns = of.columns.data(),
                      .user_numbers = of.user_numbers.data(),
                      .dropout = dropout_of(kept, step),
                      .keep_prob = kept.item_keep_prob,
                      .table = static_cast<const T*>(parameters.operand(table)),
                      .bias = nullptr,
                      .tanh = false,
                      .stride = output.stride(),
                      .values = output.values(),
                      .copy = reinterpret_cast<T*>(output.copy()),
                      .adds = false,
                      .max_groups = static_cast<int>(tune().groups)};
      };
      if (side != nullptr) launch(stream_, output.rows(), encode(side->batch, side->table, 1.0F));
      Encode whole = encode(batch, layer.weight, input_dropout);
      whole.bias = parameters.weights(layer.bias);
      whole.tanh = act == Activation::tanh;
      whole.adds = side != nullptr;
      launch(stream_, output.rows(), whole);
    });
  });
}

void Device::sparse_linear_backward(const Batch& batch, const device::ParameterLayout& layout,
                                    device::Layer layer, Activation act, device::InputDropout input_dropout,
                                    const StepState& step, const Activations& output, Activations& d_output,
                                    FloatBuffer& gradients, const device::GradientReady& ready,
                                    const FusedUpdate* fused) {
  const NvtxRange nvtx("backward: input table");
  if (fused != nullptr) throw std::logic_error("sparse_linear_backward: this device does not fuse updates");
  const Range bias = layout.tensors[layer.bias].range;
  float* d_bias = gradients.data() + bias.begin;
  if (d_output.rows() == 0) {
    stream_.memset_zero(d_bias, d_output.stride() * 4);
  } else {
    activation_backward(stream_, scratch_, dtype(), act == Activation::tanh, output, d_output, d_bias);
  }
  table_gradient(batch, layout.tensors[layer.weight], input_dropout, &step, d_output, gradients, ready);
  if (ready) ready(bias, record_event());
}

void Device::side_features_backward(const SideFeatures& side, const device::ParameterLayout& layout,
                                    const Activations& d_before, FloatBuffer& gradients,
                                    const device::GradientReady& ready) {
  const NvtxRange nvtx("backward: side table");
  table_gradient(side.batch, layout.tensors[side.table], 1.0F, nullptr, d_before, gradients, ready);
}

void Device::table_gradient(const Batch& b, const device::TensorLayout& table,
                            device::InputDropout input_dropout, const StepState* step, const Activations& d,
                            FloatBuffer& gradients, const device::GradientReady& ready) {
  const std::int64_t items = table.spec.rows;
  const std::int64_t users = b.users();
  if (!b.has_transpose) throw std::logic_error("sparse_linear_backward: the batch must have its transpose");
  if (d.rows() != users || items != b.items) {
    throw std::logic_error(
        "sparse_linear_backward: gradient, batch and table must have the same users and items");
  }
  const Dropout dropout = step != nullptr ? dropout_of(input_dropout, *step) : Dropout{};
  UserScales scale{b.offsets.data(), b.user_numbers.data(), dropout, input_dropout.item_keep_prob};
  if (tune().diet == 0) {
    auto* computed = scratch_.get<float>(Scratch::per_user, users, "the scales of users' rows");
    launch(stream_, blocks_for(users, ScaleUsers::threads), ScaleUsers{scale, users, computed});
    scale.computed = computed;
  }

  const std::int64_t* part_begin = nullptr;
  float* partial = nullptr;
  // An upper bound: an item's last part may have few users, but then it is not its only one.
  const std::int64_t users_of_part = part_size();
  const std::int64_t parts = users > users_without_parts ? 2 * b.max_entries / users_of_part : 0;
  if (parts > 0) {
    auto* counts = scratch_.get<std::int32_t>(Scratch::flags, items, "parts of items");
    auto* begin = scratch_.get<std::int64_t>(Scratch::per_entry, items + 1, "parts of items");
    partial = scratch_.get<float>(Scratch::products, parts * d.stride(), "sums of gradients");
    launch(stream_, blocks_for(items, CountParts::threads),
           CountParts{b.item_begin.data(), items, users_of_part, counts});
    primitives_.exclusive_scan(stream_, counts, items, begin);
    part_begin = begin;
  }

  const DType reads = users * d.stride() * 4 > cached_bytes ? dtype() : DType::fp32;
  dispatch_dtype(reads, [&]<class T>(T) {
    const SumUsers<T> sum{.item_users = b.item_users.data(),
                          .user_numbers = b.user_numbers.data(),
                          .dropout = dropout,
                          .scale = scale,
                          .d = static_cast<const T*>(reads == DType::fp32 ? d.values() : d.operand()),
                          .stride = d.stride(),
                          .max_groups = static_cast<int>(tune().groups)};
    dispatch_row_threads([&](auto threads) {
      launch(stream_, parts,
             SumPart<T, threads()>{sum, b.item_begin.data(), part_begin, items, users_of_part, partial});
    });
    const std::int64_t at_once = ready ? std::max(min_items, (items + max_reports - 1) / max_reports) : items;
    for (std::int64_t first = 0; first < items; first += at_once) {
      const std::int64_t end = std::min(first + at_once, items);
      launch(stream_, end - first,
             SumItem<T>{sum, b.item_begin.data(), part_begin, partial, first,
                        gradients.data() + table.range.begin});
      if (!ready) continue;
      const std::int64_t begin = table.range.begin + first * table.stride;
      ready({begin, end == items ? table.range.end : begin + at_once * table.stride}, record_event());
    }
  });
}

}  // namespace vaecf::cuda
