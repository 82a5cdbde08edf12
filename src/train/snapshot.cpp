#include "snapshot.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <new>

namespace vaecf::train {
namespace {

constexpr std::array<std::pair<FlatState, const char*>, 3> groups = {
    {{FlatState::weights, "weights"},
     {FlatState::first_moment, "optimizer/first_moment"},
     {FlatState::second_moment, "optimizer/second_moment"}}};

bool is_vector(const backend::TensorSpec& spec) {
  return spec.kind == backend::TensorKind::bias || spec.kind == backend::TensorKind::output_bias;
}

bool all_finite(const std::vector<float>& values) {
  constexpr std::uint32_t infinity = 0x7F800000U;
  std::uint32_t largest = 0;  // of magnitudes, whose bits are ordered as they are
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
  }
  return largest < infinity;
}

}  // namespace

void Snapshot::make_room(const std::vector<backend::TensorSpec>& specs) {
  if (!tensors_.empty()) return;
  std::vector<Tensor> tensors;
  for (const auto& [which, group] : groups) {
    for (const backend::TensorSpec& spec : specs) {
      tensors.push_back({format("{}/{}", group, spec.name), spec.rows, spec.columns, is_vector(spec),
                         std::vector<float>(static_cast<std::size_t>(spec.rows * spec.columns))});
    }
  }
  tensors_ = std::move(tensors);
}

void Snapshot::take(const SessionOptions& options, const Services& services, const RunState& state,
                    const DatasetMark& dataset, Trainer& trainer) {
  const model::Model& model = trainer.model();
  on_root(services.communicator, [&] {
    attributes_ = attributes_of(options, state, dataset, model);
    try {
      make_room(model.tensors());
    } catch (const std::bad_alloc&) {
      throw RunError(
          "rank 0 has no memory for the copy that a checkpoint is written from (three times the "
          "weights): use a smaller model, or a host with more memory");
    }
  });
  const std::size_t tensors = tensors_.size() / groups.size();  // none but on rank 0
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::span<Tensor> mine(tensors_.data() + group * tensors, tensors);
    std::vector<std::span<float>> values;
    for (Tensor& tensor : mine) values.emplace_back(tensor.values);
    services.engine.read(groups[group].first, values);
    on_root(services.communicator, [&] {
      const auto broken =
          std::ranges::find_if_not(mine, [](const Tensor& tensor) { return all_finite(tensor.values); });
      if (broken == mine.end()) return;
      throw RunError(format(
          "{} holds values that are no numbers, so no checkpoint is written and the last one stays: the "
          "weights have grown without bound; lower train.optimizer.learning_rate, or look for a precision "
          "that is too narrow",
          broken->name));
    });
  }
}

void Snapshot::write(const std::string& path) const {
  std::vector<io::TensorSource> sources;
  for (const Tensor& tensor : tensors_) {
    sources.push_back({tensor.name, tensor.rows, tensor.columns, tensor.vector,
                       [&tensor](std::int64_t begin, std::int64_t end, std::span<float> out) {
                         const auto from = tensor.values.begin() + begin * tensor.columns;
                         std::copy(from, from + (end - begin) * tensor.columns, out.begin());
                       }});
  }
  io::write_checkpoint(path, attributes_, sources);
}

}  // namespace vaecf::train
