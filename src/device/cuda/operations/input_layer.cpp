#include "device/cuda/operations/input_layer.hpp"

#include <stdexcept>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/unused_rows.hpp"

// Custom kernels instead of cuSPARSE: its products need stored values, but dropout and scale are computed on
// the fly. It cannot fuse bias, tanh and the 16-bit copy. And its product with the transpose, which the
// gradient requires, adds in an order that varies between runs.
namespace vaecf::cuda {
namespace {

/// Returns the factors of the users of `batch`, given the dropout of `step`; null: no dropout.
UserScales scales_of(const Batch& batch, InputScaling kept, const StepState* step) {
  UserScales scales{batch.totals.data(), kept.normalized, batch.user_numbers.data(), kept.item_keep_prob};
  if (step == nullptr) return scales;
  const ItemSlice items = batch.item_slice();
  scales.state = step->device_state.data();
  scales.threshold = math::dropout_threshold(kept.item_keep_prob);
  scales.drops_items = kept.item_keep_prob < 1.0F;
  scales.history_threshold = math::dropout_threshold(kept.history_keep_prob);
  scales.drops_histories = kept.history_keep_prob < 1.0F;
  scales.first_item = static_cast<std::uint32_t>(items.first);
  scales.item_step = static_cast<std::uint32_t>(items.step);
  return scales;
}

/// One user per block: output = act(bias + sum of s_ui W_i); with `adds`, the previous output is added before
/// `act`.
template <class T, int THREADS>
struct EncodeUser {
  static constexpr int threads = THREADS;
  static constexpr int scratch_bytes = sizeof(CompactedRows<threads>);
  // Four wide blocks on each of 132 multiprocessors, so that those of 500 users run at once. In fp16 these
  // would spill.
  static constexpr int blocks_at_once = THREADS == narrow_threads ? 0 : std::is_same_v<T, Fp16> ? 3 : 4;
  const std::int64_t* offsets;
  const std::int32_t* columns;
  const float* entry_values;  // null: all are 1
  UserScales scale;
  const T* table;     // (items, stride)
  const float* bias;  // null: not added here
  Activation act;
  std::int64_t width;  // columns without padding
  std::int64_t stride;
  float* values;  // (users, stride)
  T* copy;        // null: not written
  bool adds;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user, std::byte* scratch) const {
    const std::int64_t begin = offsets[user];
    const std::int64_t held = offsets[user + 1] - begin;
    const std::int64_t n = scale.keeps_history(user) ? held : 0;
    const float weight = scale.of_kept(user);
    float* row = values + user * stride;
    sum_rows(thread_group, *reinterpret_cast<CompactedRows<threads>*>(scratch),
             ItemsOfUser{begin, begin + n, columns, entry_values, scale, user, weight},
             RowSum<T>{table, stride, row, adds}, [&](std::int64_t column, Vec8& sum) {
               const Vec8 b = bias != nullptr ? load_vec8(bias + column) : Vec8{};
               add(b, sum);
               activate(act, column, width, sum);
               store_vec8(row + column, sum);
               if constexpr (!std::is_same_v<T, float>) {
                 if (copy != nullptr) store_vec8(copy + user * stride + column, sum);
               }
             });
  }
};

// An item of many users in a large batch would keep one block busy long after all others. So in batches of
// more users than this, such an item is summed in parts; the parts are then added in order.
constexpr std::int64_t users_without_parts = 1024;

// In batches of at most this many users, wide blocks and small parts shorten the wait for the longest sums.
// In larger ones, the other blocks hide that wait, and more narrow blocks than wide ones run at once.
constexpr std::int64_t users_of_wide_blocks = 8192;

std::int64_t part_size(std::int64_t users) {
  return users > users_of_wide_blocks ? 1024 : 256;
}

/// Calls f with the number of threads of the blocks that sum long rows.
template <class F>
void dispatch_row_threads(std::int64_t users, F&& f) {
  if (users > users_of_wide_blocks) return f(std::integral_constant<int, narrow_threads>());
  f(std::integral_constant<int, wide_threads>());
}

DType gradient_reads(DType dtype, std::int64_t users, const Matrix& d) {
  return device::reads_half_gradient(users, d.stride()) ? dtype : DType::fp32;
}

}  // namespace

void Device::sparse_linear(const device::Batch& batch_base, const Parameters& parameters, Layer layer,
                           Activation act, InputScaling scaling, const device::StepState& step_base,
                           const SideFeatures* side, Matrix& output) {
  const auto& batch = own<Batch>(batch_base);
  const auto& step = own<StepState>(step_base);
  const NvtxRange nvtx("input: gather");
  if (side != nullptr && side->batch.users() != batch.own().size()) {
    throw std::logic_error("sparse_linear: the side input must have the own users of the batch");
  }
  Exchange exchange(*this, batch);
  float* const sums = exchange.sums_memory(output);
  dispatch_dtype(dtype(), [&]<class T>(T) {
    dispatch_row_threads(batch.users(), [&](auto threads) {
      using Encode = EncodeUser<T, threads()>;
      const auto encode = [&](const Batch& of, int table, InputScaling kept) {
        return Encode{.offsets = of.offsets.data(),
                      .columns = of.columns.data(),
                      .entry_values = of.entry_values(),
                      .scale = scales_of(of, kept, &step),
                      .table = static_cast<const T*>(parameters.operand(table)),
                      .bias = nullptr,
                      .act = Activation::identity,
                      .width = output.columns(),
                      .stride = output.stride(),
                      .values = output.values(),
                      .copy = reinterpret_cast<T*>(output.copy()),
                      .adds = false};
      };
      const auto complete = [&](Encode last, bool adds) {
        if (layer.bias >= 0) last.bias = parameters.weights(layer.bias);
        last.act = act;
        last.adds = adds;
        launch(stream_, output.rows(), last);
      };
      Encode items = encode(batch, layer.weight, scaling);
      if (exchange.alone()) {
        if (side != nullptr)
          launch(stream_, output.rows(), encode(own<Batch>(side->batch), side->table, 1.0F));
        return complete(items, side != nullptr);
      }
      items.values = sums;
      items.copy = nullptr;
      launch(stream_, batch.users(), items);
      exchange.sum(sums, output);
      if (side != nullptr) complete(encode(own<Batch>(side->batch), side->table, 1.0F), true);
    });
  });
  if (exchange.alone() || side != nullptr) return;
  if (layer.bias >= 0) return add_bias(parameters.weights(layer.bias), act, output);
  update_half_copy(output);
}

void Device::update_unused_rows(const device::Batch& batch_base, Layer layer, InputScaling scaling,
                                const Backward& backward) {
  if (backward.fused == nullptr) return;
  const auto& batch = own<Batch>(batch_base);
  const auto& step = own<StepState>(backward.step);
  const NvtxRange nvtx("optimizer: unused rows, beside");
  require_fusible("update_unused_rows", step);
  if (!batch.has_transpose) throw std::logic_error("update_unused_rows: the batch must have its transpose");
  const TensorLayout& table = backward.layout().tensors[layer.weight];
  const Moments moments{backward.fused->first_moment, backward.fused->second_moment};
  auto* used = scratch_.get<std::uint8_t>(Scratch::used_items, batch.items, "items of the batch");
  dispatch_dtype(dtype(), [&]<class T>(T) {
    const UpdateUnused<T> update{.scale = scales_of(batch, scaling, &step),
                                 .item_users = batch.item_users.data(),
                                 .item_begin = batch.item_begin.data(),
                                 .used = used,
                                 .stride = table.stride,
                                 .gradient = backward.gradients.data() + table.range.begin,
                                 .update = {make_weight_update<T>(step, moments, backward.fused->parameters),
                                            backward.gradients.data(), table.spec.decays}};
    run_beside(unused_, [&] { launch(side_stream_, batch.items, update); });
  });
  updated_unused_ = &batch;
}

void Device::sparse_linear_backward(const device::Batch& batch_base, Layer layer, Activation act,
                                    InputScaling scaling, const Matrix& output, Matrix& d_output,
                                    const Backward& backward) {
  const auto& batch = own<Batch>(batch_base);
  const auto& step = own<StepState>(backward.step);
  const NvtxRange nvtx("backward: input table");
  if (backward.fused != nullptr) require_fusible("sparse_linear_backward", step);
  Exchange exchange(*this, batch);
  const DType reads = gradient_reads(dtype(), batch.users(), d_output);
  exchange.reserve_gather(d_output, reads);
  Range bias;
  if (layer.bias < 0) {
    update_half_copy(d_output);
  } else {
    bias = backward.layout().tensors[layer.bias].range;
    // Features read the gradient of the own users, which may be small enough for fp32.
    activation_backward(act, output, gradient_reads(dtype(), d_output.rows(), d_output), d_output,
                        backward.gradients.data() + bias.begin);
  }
  finish_sums();
  // Before the report: the reduction of the bias must not delay the gradient of all users.
  const void* all = exchange.gather(d_output, reads);
  if (layer.bias >= 0 && backward.ready) backward.ready(bias, record_event());
  const GradientRows d{all, reads, batch.users(), d_output.stride()};
  table_gradient(batch, backward.layout().tensors[layer.weight], scaling, &step, d, backward);
}

void Device::side_features_backward(const SideFeatures& side, const Matrix& d_before,
                                    const Backward& backward) {
  const NvtxRange nvtx("backward: side table");
  const DType reads = gradient_reads(dtype(), d_before.rows(), d_before);
  const GradientRows d{reads == DType::fp32 ? d_before.values() : d_before.operand(), reads, d_before.rows(),
                       d_before.stride()};
  table_gradient(own<Batch>(side.batch), backward.layout().tensors[side.table], 1.0F, nullptr, d,
                 backward.with(backward.ready, nullptr));
}

void Device::table_gradient(const Batch& b, const TensorLayout& table, InputScaling scaling,
                            const StepState* step, const GradientRows& d, const Backward& backward) {
  const std::int64_t items = table.spec.rows;
  const std::int64_t users = b.users();
  if (!b.has_transpose) throw std::logic_error("sparse_linear_backward: the batch must have its transpose");
  if (d.users != users || items != b.items) {
    throw std::logic_error(
        "sparse_linear_backward: gradient, batch and table must have the same users and items");
  }
  join(sort_);  // the gradient reads the transpose
  const std::uint8_t* used = nullptr;
  if (backward.fused != nullptr && updated_unused_ == &b) {
    updated_unused_ = nullptr;
    join(unused_);
    used = scratch_.get<std::uint8_t>(Scratch::used_items, items, "items of the batch");
  }

  const std::int64_t* part_begin = nullptr;
  float* partial = nullptr;
  // An upper bound: an item's last part may have few users, but then it is not its only one.
  const std::int64_t users_of_part = part_size(users);
  const std::int64_t parts = users > users_without_parts ? 2 * b.max_entries / users_of_part : 0;
  if (parts > 0) {
    auto* counts = scratch_.get<std::int32_t>(Scratch::flags, items, "parts of items");
    auto* begin = scratch_.get<std::int64_t>(Scratch::per_entry, items + 1, "parts of items");
    partial = scratch_.get<float>(Scratch::products, parts * d.stride, "sums of gradients");
    launch_elements(stream_, items, CountParts{b.item_begin.data(), users_of_part, counts});
    primitives_.exclusive_scan(stream_, counts, items, begin);
    part_begin = begin;
  }

  dispatch_dtype(d.dtype, [&]<class T>(T) {
    const SumUsers<T> sum{.item_users = b.item_users.data(),
                          .item_values = b.transpose_values(),
                          .scale = scales_of(b, scaling, step),
                          .d = static_cast<const T*>(d.rows),
                          .stride = d.stride};
    dispatch_row_threads(users, [&](auto threads) {
      launch(stream_, parts,
             SumPart<T, threads()>{sum, b.item_begin.data(), part_begin, items, users_of_part, partial});
    });
    const auto sum_items = [&](Range rows, const auto& done) {
      launch(stream_, rows.size(),
             SumItem<T, std::decay_t<decltype(done)>>{sum, b.item_begin.data(), part_begin, partial, used,
                                                      rows.begin,
                                                      backward.gradients.data() + table.range.begin, done});
    };
    if (backward.fused != nullptr) {
      const Moments moments{backward.fused->first_moment, backward.fused->second_moment};
      const auto update = [&]<class Copy>(Copy) {
        sum_items({0, items},
                  UpdateTable<Copy>{make_weight_update<Copy>(*step, moments, backward.fused->parameters),
                                    backward.gradients.data(), table.spec.decays});
      };
      // fp16 does not fuse updates, and only bf16 reads bf16.
      if constexpr (!std::is_same_v<T, Fp16>) {
        if (dtype() == DType::bf16) return update(Bf16{});
        if constexpr (std::is_same_v<T, float>) return update(float{});
      }
    }
    write_table_gradient(table, backward, [&](Range rows) { sum_items(rows, StoreSums()); });
  });
}

}  // namespace vaecf::cuda
