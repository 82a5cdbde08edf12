#include <stdexcept>

#include "device/cuda/device.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

struct AddSlices {
  const float* parts;  // (item slices, n)
  int item_slices;
  std::int64_t n;
  float* sums;

  VAECF_HD void operator()(std::int64_t i) const {
    float sum = parts[i];
    for (int s = 1; s < item_slices; ++s) sum += parts[s * n + i];
    sums[i] = sum;
  }
};

std::size_t count_of(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

}  // namespace

std::int64_t Exchange::part_size(const Matrix& own) const {
  if (own.max_rows() < batch_.part_rows())
    throw std::logic_error(
        "activations must have as many rows as a part of the model-parallel group's users");
  return batch_.part_rows() * own.stride();
}

void* Exchange::gather_memory(const Matrix& own, DType dtype) {
  if (alone()) return nullptr;
  return device_.scratch_.bytes(Scratch::gathered, model_parallel_.count() * part_size(own) * size_of(dtype),
                                "activations of the model-parallel group's users");
}

const void* Exchange::gather(const Matrix& own, DType dtype) {
  const void* mine = dtype == DType::fp32 ? static_cast<const void*>(own.values()) : own.operand();
  if (alone()) return mine;
  void* all = gather_memory(own, dtype);
  const std::int64_t part = part_size(own);
  const std::size_t size = count_of(part);
  if (part == 0) return all;
  const auto start = [&]<class T>(T) {
    return model_parallel_.all_gather(
        std::span(static_cast<const T*>(mine), size),
        std::span(static_cast<T*>(all), size * count_of(model_parallel_.count())), device_.record_event());
  };
  // The bits of 16-bit values, whatever their type.
  device_.stream_.wait_event((dtype == DType::fp32 ? start(float{}) : start(Bf16{})).event);
  return all;
}

float* Exchange::sums_memory(Matrix& own) {
  own.set_rows(batch_.own().size());
  if (alone()) return own.values();
  return device_.scratch_.get<float>(Scratch::sums_of_all, model_parallel_.count() * part_size(own),
                                     "sums for the model-parallel group's users");
}

EventHandle Exchange::start_sum(const float* all, Matrix& own) {
  if (alone() || batch_.users() == 0) return {};
  const std::size_t size = count_of(part_size(own));
  return model_parallel_.reduce_scatter({all, size * count_of(model_parallel_.count())}, {own.values(), size},
                                        device_.record_event());
}

float* Exchange::values_memory(std::int64_t n) {
  return device_.scratch_.get<float>(Scratch::exchanged, (1 + model_parallel_.count()) * n,
                                     "values of the model-parallel group's item slices");
}

const float* Exchange::gather_values(std::int64_t n) {
  float* mine = values_memory(n);
  if (alone()) return mine;
  float* all = mine + n;
  if (n == 0) return all;
  const EventHandle done = model_parallel_.all_gather(std::span<const float>(mine, count_of(n)),
                                                      std::span(all, count_of(model_parallel_.count() * n)),
                                                      device_.record_event());
  device_.stream_.wait_event(done.event);
  return all;
}

void Exchange::add_over_item_slices(float* values, std::int64_t n) {
  if (alone()) return;
  device_.stream_.copy(values_memory(n), values, n * 4);
  const float* all = gather_values(n);
  launch_elements(device_.stream_, n, AddSlices{all, model_parallel_.count(), n, values});
}

}  // namespace vaecf::cuda
