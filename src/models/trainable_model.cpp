#include <vaecf/models/trainable_model.hpp>

#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "models/cosines.hpp"
#include "models/device_users.hpp"

namespace vaecf::models {
namespace {

ItemSliceRows cut_rows(CsrView rows, std::int64_t item_count, device::ModelParallelGroup& model_parallel) {
  ItemSliceRows cut;
  if (model_parallel.count() > 1) cut.append(rows, model_parallel.item_slice(item_count));
  return cut;
}

}  // namespace

DeviceUsers::DeviceUsers(device::Device& device, const UserData& users, std::int64_t item_count,
                         std::int64_t feature_count, std::int64_t max_users,
                         device::ModelParallelGroup& model_parallel)
    : no_items(static_cast<std::size_t>(max_users) + 1, 0),
      cut(cut_rows(users.items, item_count, model_parallel)),
      items(device.make_user_rows(model_parallel.count() > 1 ? cut.view() : users.items, users.first_user,
                                  item_count, model_parallel)),
      features(feature_count > 0 ? device.make_user_rows(users.features, users.first_user, feature_count,
                                                         device::single_rank())
                                 : nullptr),
      targets(device.make_user_rows(users.targets, users.first_user, item_count, device::single_rank())),
      empty_rows(device.make_user_rows(CsrView{no_items, {}}, 0, item_count, model_parallel)),
      items_batch(device.make_batch()),
      features_batch(device.make_batch()),
      empty_batch(device.make_batch()),
      target_count(users.targets.entries()) {}

void DeviceUsers::gather_items(device::Device& device, Range rows) {
  numbers.resize(static_cast<std::size_t>(rows.size()));
  std::iota(numbers.begin(), numbers.end(), rows.begin);
  device.gather_batch(*items, numbers, false, *items_batch);
}

void DeviceUsers::gather_empty(device::Device& device, std::int64_t count) {
  numbers.resize(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  device.gather_batch(*empty_rows, numbers, false, *empty_batch);
}

device::TargetRanks& DeviceUsers::target_ranks(device::Device& device) {
  if (!ranks) ranks = device.make_target_ranks(target_count);
  return *ranks;
}

TrainableModel::TrainableModel(device::Device& device, InputDims inputs, device::ParameterLayout layout,
                               std::int64_t max_rows, std::int64_t size_multiple)
    : device_(device),
      model_parallel_(*inputs.model_parallel),
      items_(inputs.items),
      features_(inputs.features),
      max_rows_(std::max<std::int64_t>(1, max_rows)),
      scoring_step_(device.make_step_state()) {
  layout = align_item_slices(std::move(layout), size_multiple);
  const std::int64_t size = (layout.size + size_multiple - 1) / size_multiple * size_multiple;
  parameters_ = device.make_parameters(layout, size);
}

device::Matrix TrainableModel::make_activations(std::int64_t columns) {
  return device_.make_matrix(model_parallel_.part_rows(max_rows_), columns);
}

std::optional<device::SideFeatures> TrainableModel::side_features(const NetworkInput& batch,
                                                                  int table) const {
  if ((batch.features != nullptr) != (features_ > 0)) {
    throw std::logic_error("features must be passed with each batch if and only if the model has features");
  }
  if (batch.features == nullptr) return std::nullopt;
  return device::SideFeatures{*batch.features, table};
}

void TrainableModel::start_epoch() {
  if (prior() == nullptr) return;
  device_.copy(parameters_.master(), prior_elements(), prior()->master(), 0);
  device_.refresh_copies(*prior(), {0, prior()->layout().size});
}

std::vector<device::TensorSpec> TrainableModel::tensors() const {
  std::vector<device::TensorSpec> specs;
  for (const device::TensorLayout& tensor : layout().tensors) specs.push_back(tensor.spec);
  return specs;
}

void TrainableModel::read_rows(int tensor, Range rows, std::span<float> values) const {
  device_.export_rows(layout(), tensor, rows, parameters_.master(), values);
}

void TrainableModel::write_rows(int tensor, Range rows, std::span<const float> values) {
  device_.import_rows(layout(), tensor, rows, values, parameters_.master());
}

void TrainableModel::finish_writing() {
  device_.refresh_copies(parameters_, {0, layout().size});
}

double TrainableModel::sum_of_squares(bool item_slices) {
  double sum = 0.0;
  for (std::size_t i = 0; i < layout().tensors.size(); ++i) {
    const device::TensorSpec& spec = layout().tensors[i].spec;
    if (spec.decays && spec.item_slice.has_value() == item_slices)
      sum += device_.sum_of_squares(parameters_, static_cast<int>(i));
  }
  return sum;
}

std::unique_ptr<LoadedUsers> TrainableModel::load_users(const UserData& users) {
  return std::make_unique<DeviceUsers>(device_, users, items_, features_, max_rows_, model_parallel_);
}

NetworkInput TrainableModel::gather(DeviceUsers& users, Range rows, History history, bool needs_empty) {
  if (needs_empty || history == History::none) users.gather_empty(device_, rows.size());
  users.gather_items(device_, rows);
  if (users.features) {
    const Range own = model_parallel_.own_users(rows.size());
    const std::span numbers(users.numbers);
    device_.gather_batch(
        *users.features,
        numbers.subspan(static_cast<std::size_t>(own.begin), static_cast<std::size_t>(own.size())), false,
        *users.features_batch);
  }
  return {history == History::none ? *users.empty_batch : *users.items_batch,
          users.features ? users.features_batch.get() : nullptr};
}

std::vector<std::int32_t> TrainableModel::rank_targets(
    LoadedUsers& users, History history, const std::function<void(std::int64_t users)>& progressed) {
  auto& loaded = static_cast<DeviceUsers&>(users);
  device::TargetRanks& ranks = loaded.target_ranks(device_);
  const std::int64_t step = std::min(device_.facts().evaluation_batch, max_rows_);
  for (std::int64_t begin = 0; begin < loaded.items->rows(); begin += step) {
    const Range rows{begin, std::min(loaded.items->rows(), begin + step)};
    const NetworkInput input = gather(loaded, rows, history, false);
    device_.rank_targets(forward_for_scoring(input), *loaded.items_batch, *loaded.targets, rows,
                         output_parameters(), output_layer(), ranks);
    progressed(rows.end);
  }
  return device_.read_ranks(ranks);
}

void TrainableModel::top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
                           std::span<std::int32_t> items, std::span<float> scores) {
  auto& loaded = static_cast<DeviceUsers&>(users);
  const NetworkInput input = gather(loaded, rows, history, keep_seen);
  const Range own = model_parallel_.own_users(rows.size());
  items = items.subspan(static_cast<std::size_t>(own.begin * k), static_cast<std::size_t>(own.size() * k));
  scores = scores.subspan(static_cast<std::size_t>(own.begin * k), static_cast<std::size_t>(own.size() * k));
  device_.top_k(forward_for_scoring(input), keep_seen ? *loaded.empty_batch : *loaded.items_batch,
                output_parameters(), output_layer(), k, items, scores);
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (items[i] >= 0) scores[i] = score_of(scores[i]);
}

std::vector<float> TrainableModel::scoring_input(LoadedUsers& users, Range rows) {
  const NetworkInput input = gather(static_cast<DeviceUsers&>(users), rows, History::items, false);
  const device::Matrix& hidden = forward_for_scoring(input);
  std::vector<float> values(model_parallel_.own_users(rows.size()).size() * hidden.columns());
  if (!values.empty()) device_.read_matrix(hidden, values);
  return values;
}

std::int64_t TrainableModel::vector_width() {
  const device::TensorSpec& table = output_parameters().layout().tensors.at(output_layer().weight).spec;
  return (table.has_item_rows() ? table.columns : table.rows) + (has_output_bias() ? 1 : 0);
}

void TrainableModel::item_vectors(Range items, std::span<float> vectors) {
  device::Parameters& output = output_parameters();
  const device::Layer layer = output_layer();
  const device::TensorSpec& table = output.layout().tensors.at(layer.weight).spec;
  if (table.has_item_rows()) {
    device_.export_rows(output.layout(), layer.weight, items, output.master(), vectors);
    return;
  }
  const std::int64_t width = vector_width();
  std::vector<float> row(static_cast<std::size_t>(items_));
  for (std::int64_t h = 0; h < width; ++h) {
    const bool is_bias = h == table.rows;
    device_.export_rows(output.layout(), is_bias ? layer.bias : layer.weight,
                        is_bias ? Range{0, 1} : Range{h, h + 1}, output.master(), row);
    for (std::int64_t item = items.begin; item < items.end; ++item)
      vectors[(item - items.begin) * width + h] = row[item];
  }
}

void TrainableModel::user_vectors(LoadedUsers& users, Range rows, std::span<float> vectors) {
  const std::vector<float> hidden = scoring_input(users, rows);
  const std::int64_t width = vector_width();
  const std::int64_t columns = width - (has_output_bias() ? 1 : 0);
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    const auto to =
        std::ranges::copy(view(hidden, {row * columns, (row + 1) * columns}), vectors.begin() + row * width)
            .out;
    if (columns < width) *to = 1.0F;
  }
}

void TrainableModel::similarities(std::span<const std::int32_t> items, std::span<float> out) const {
  write_cosines(*this, item_tensor(), items, out);
}

void TrainableModel::restrict_to(std::span<const std::uint8_t> allowed_items) {
  // Through the biases, so that no operation needs a mask.
  const int tensor = output_layer().bias;
  device::Parameters& output = output_parameters();
  const ItemSlice item_slice = model_parallel_.item_slice(items_);
  if (bias_.empty()) {
    if (allowed_items.empty()) return;
    bias_.resize(static_cast<std::size_t>(item_slice.count()));
    device_.export_rows(output.layout(), tensor, {0, 1}, output.master(), bias_);
  }
  std::vector<float> bias = bias_;
  if (allowed_items.empty()) bias_.clear();
  for (std::size_t i = 0; i < bias.size() && !allowed_items.empty(); ++i) {
    const auto item = static_cast<std::size_t>(item_slice.global(static_cast<std::int64_t>(i)));
    if (allowed_items[item] == 0) bias[i] = -std::numeric_limits<float>::infinity();
  }
  device_.import_rows(output.layout(), tensor, {0, 1}, bias, output.master());
  device_.refresh_copies(output, {0, output.layout().size});
}

}  // namespace vaecf::models
