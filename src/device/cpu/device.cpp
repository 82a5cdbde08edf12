#include "device/cpu/device.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/timeline.hpp>

#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/kernels/tiles.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {

Device::Device(int threads, device::Precision precision, bool portable,
               std::shared_ptr<const TileKernels> tiles, PanelKernel panels)
    : threads_(threads),
      precision_(precision),
      portable_(portable),
      tiles_(precision == device::Precision::bf16 ? std::move(tiles) : nullptr),
      panels_(precision == device::Precision::fp32 && !portable ? panels : nullptr),
      workspace_(std::make_unique<Workspace>()) {
  for (int t = 0; t < threads_; ++t) {
    engines_.push_back(portable ? make_portable_engine() : make_engine(panels_));
  }
  workspace_->threads.resize(static_cast<std::size_t>(threads_));
}

Device::~Device() = default;

device::DeviceFacts Device::facts() const {
  std::string products = "fp32";
  if (bf16()) {
    const Bf16GemmPath how = bf16_gemm_path();
    products = "bf16 with fp32 sums and master weights";
    if (!portable_ && how == Bf16GemmPath::fp32_on_rounded) {
      products = has_onednn() ? "fp32 on operands rounded to bf16 (this CPU has no bf16 products)"
                              : "fp32 on operands rounded to bf16";
    } else if (!portable_) {
      products += how == Bf16GemmPath::amx ? " (AMX)" : " (AVX-512)";
    }
  }
  const char* panels = panels_ == plain_panel_kernel() ? "plain vectors" : "AVX2";
  const char* kernel = tiles_ ? tiles_->name() : panels_ ? panels : nullptr;
  const std::string own = kernel ? format(", output layer by a custom kernel ({})", kernel) : "";
  device::DeviceFacts facts{.precision = precision_, .threads = threads_, .evaluation_batch = 500};
  facts.description = format("cpu, {} thread{}, matrix products in {} by {}{}, other loops in {}", threads_,
                             threads_ == 1 ? "" : "s", products, portable_ ? "plain loops" : onednn_version(),
                             own, vector_isa());
  return facts;
}

/// Runs work(thread) on all threads `repetitions` times and returns the fastest time in seconds.
template <class Work>
static double fastest(int threads, int repetitions, const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto start = Clock::now();
    parallel_for_threads(threads, work);
    best = std::min(best, seconds_since(start));
  }
  return best;
}

std::vector<double> Timer::elapsed() {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < marks_.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(marks_[i] - marks_[i - 1]).count());
  }
  if (!marks_.empty()) last_ = marks_.back();
  marks_.clear();
  return seconds;
}

double Device::measure_gemm_rate(std::int64_t max_bytes) {
  std::int64_t size = 1024;
  const std::int64_t matrices = 2 * threads_ + 1;
  while (size > 64 && matrices * size * size * std::int64_t{sizeof(float)} > max_bytes) size /= 2;
  const MatmulSpec spec{.m = size, .n = size, .k = size, .operands = dtype()};
  AlignedArray<float> b(size * size);  // bf16 operands use half of it
  std::vector<AlignedArray<float>> a(static_cast<std::size_t>(threads_));
  std::vector<AlignedArray<float>> c(static_cast<std::size_t>(threads_));
  parallel_for_threads(threads_, [&](int t) {
    a[t].resize(size * size);
    c[t].resize(size * size);
  });
  const double seconds =
      fastest(threads_, 8, [&](int t) { engines_[t]->run(spec, a[t].data(), b.data(), c[t].data()); });
  return 2.0 * threads_ * size * size * size / seconds * 1e-9;
}

double Device::measure_memory_rate(std::int64_t max_bytes) {
  // Large copies, for which memcpy bypasses the caches; small ones would stay in the caches.
  const std::int64_t wanted = std::max(std::int64_t{1} << 27, threads_ * (std::int64_t{1} << 24)) / threads_;
  const std::int64_t share = std::clamp(max_bytes / (2 * threads_), std::int64_t{4096}, wanted);
  std::vector<AlignedArray<char>> from(static_cast<std::size_t>(threads_));
  std::vector<AlignedArray<char>> to(static_cast<std::size_t>(threads_));
  parallel_for_threads(threads_, [&](int t) {
    from[t].resize(share);
    to[t].resize(share);
    std::memset(from[t].data(), 1, static_cast<std::size_t>(share));
    std::memset(to[t].data(), 2, static_cast<std::size_t>(share));
  });
  const double seconds = fastest(threads_, 4, [&](int t) {
    std::memcpy(to[t].data(), from[t].data(), static_cast<std::size_t>(share));
  });
  return 2.0 * threads_ * static_cast<double>(share) / seconds * 1e-9;
}

double Device::measure(device::Rate rate, std::int64_t max_bytes) {
  return rate == device::Rate::gemm ? measure_gemm_rate(max_bytes) : measure_memory_rate(max_bytes);
}

std::int64_t Device::output_bytes(ItemSlice items, std::int64_t users) const {
  return 4 * items.count() * (std::min(block_users(items), users) + scored_users(items));
}

void Device::begin_step(const device::StepParams& params, device::StepState& any_step) {
  auto& step = own<StepState>(any_step);
  step.begin(params);
  std::fill_n(step.gradient_stats.data(), 2, 0.0F);
}

/// Returns the sum of squares, in blocks of a fixed size, so that the bits do not depend on the number of
/// threads.
static double sum_in_blocks(int threads, const float* values, std::int64_t n) {
  constexpr std::int64_t block = 1 << 16;
  const std::int64_t blocks = (n + block - 1) / block;
  std::vector<double> sums(static_cast<std::size_t>(blocks), 0.0);
  parallel_for(threads, blocks, [&](int, std::int64_t b) {
    sums[b] = sum_of_squares(values + b * block, std::min(block, n - b * block));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void Device::update(std::span<const UpdateRange> ranges, const Buffer& gradients, Moments moments,
                    Parameters& parameters, const device::StepState& step) {
  for (const auto& [range, decays] : ranges) {
    const UpdateRule rule = own<StepState>(step).rule(decays);
    parallel_for_static(threads_, range.size(), 1024, [&, begin = range.begin](int, Range part) {
      const std::int64_t i = begin + part.begin;
      update_elements(rule, gradients.data() + i, moments.first.data() + (i + moments.offset),
                      moments.second.data() + (i + moments.offset), parameters.master().data() + i,
                      parameters.copy_of(i), part.size());
    });
  }
}

void Device::accumulate_gradient_stats(const Buffer& gradients, Range range, device::StepState& any_step) {
  auto& step = own<StepState>(any_step);
  const UpdateRule& rule = step.params.rule;
  if (rule.clip_norm <= 0.0F) return;
  const double scale = rule.gradient_scale;
  step.squares += scale * scale * sum_in_blocks(threads_, gradients.data() + range.begin, range.size());
  step.gradient_stats.data()[1] = static_cast<float>(step.squares);
}

double Device::sum_of_squares(const Parameters& parameters, int tensor) {
  const Range range = parameters.layout().tensors[tensor].range;
  return sum_in_blocks(threads_, parameters.weights(tensor), range.size());
}

void Device::gather_scheduled_batch(const device::UserRows& source, const device::BatchSchedule& schedule,
                                    const device::StepState& step, std::int64_t users, device::Batch& batch) {
  const auto rows = own<BatchSchedule>(schedule).rows(own<StepState>(step).params.batch);
  if (static_cast<std::int64_t>(rows.size()) != users) {
    throw std::logic_error(
        "gather_scheduled_batch: `users` differs from the number of users in the step's batch");
  }
  gather_batch(source, rows, true, batch);
}

void Device::gather_batch(const device::UserRows& any_source, std::span<const std::int64_t> rows,
                          bool with_transpose, device::Batch& any_batch) {
  const auto& source = own<UserRows>(any_source);
  auto& batch = own<Batch>(any_batch);
  batch.model_parallel_ = source.model_parallel;
  batch.items = source.items;
  batch.user_numbers.clear();
  batch.totals.clear();
  batch.offsets.assign(1, 0);
  batch.columns.clear();
  batch.values.clear();
  for (const std::int64_t row : rows) {
    const auto items = source.csr.row(row);
    batch.user_numbers.push_back(static_cast<std::uint32_t>(source.first_user + row));
    batch.totals.push_back(source.totals[static_cast<std::size_t>(row)]);
    batch.columns.insert(batch.columns.end(), items.begin(), items.end());
    const auto values = source.csr.row_values(row);
    batch.values.insert(batch.values.end(), values.begin(), values.end());
    batch.offsets.push_back(static_cast<std::int64_t>(batch.columns.size()));
  }
  batch.has_transpose = with_transpose;
  if (!with_transpose) return;

  // Counting sort by item; the users of an item stay in ascending order.
  const std::int64_t item_count = source.items.count();
  batch.item_begin.assign(static_cast<std::size_t>(item_count) + 1, 0);
  batch.item_users.resize(batch.columns.size());
  batch.item_values.resize(batch.values.size());
  for (const std::int32_t item : batch.columns) ++batch.item_begin[item + 1];
  for (std::int64_t i = 0; i < item_count; ++i) batch.item_begin[i + 1] += batch.item_begin[i];
  for (std::size_t u = 0; u < rows.size(); ++u) {
    const auto items = batch.rows().row(static_cast<std::int64_t>(u));
    const auto values = batch.rows().row_values(static_cast<std::int64_t>(u));
    for (std::size_t k = 0; k < items.size(); ++k) {
      const std::int32_t to = batch.item_begin[items[k]]++;
      batch.item_users[to] = static_cast<std::int32_t>(u);
      if (!values.empty()) batch.item_values[to] = values[k];
    }
  }
  // The loop above advanced every begin to the next item's; shift back.
  for (std::int64_t i = item_count; i > 0; --i) batch.item_begin[i] = batch.item_begin[i - 1];
  batch.item_begin[0] = 0;
}

void Device::fill(Buffer& buffer, float value) {
  parallel_for_static(threads_, buffer.size(), 1024,
                      [&](int, Range part) { std::fill_n(buffer.data() + part.begin, part.size(), value); });
}

void Device::cast_to_bf16(const Buffer& from, Range range, Bf16Buffer& to, std::int64_t at) {
  parallel_for_static(threads_, range.size(), 1024, [&](int, Range part) {
    to_bf16(from.data() + range.begin + part.begin, &to.data()[at + part.begin].bits, part.size());
  });
}

void Device::cast_to_fp32(const Bf16Buffer& from, Range range, Buffer& to, std::int64_t at) {
  parallel_for_static(threads_, range.size(), 1024, [&](int, Range part) {
    vaecf::cpu::to_fp32(&from.data()[range.begin + part.begin].bits, to.data() + at + part.begin,
                        part.size());
  });
}

void Device::copy(const Buffer& from, Range range, Buffer& to, std::int64_t at) {
  parallel_for_static(threads_, range.size(), 1024, [&](int, Range part) {
    std::copy_n(from.data() + range.begin + part.begin, part.size(), to.data() + at + part.begin);
  });
}

void Device::write_matrix(Matrix& to, std::int64_t rows, std::span<const float> values) {
  to.set_rows(rows);
  std::copy(values.begin(), values.end(), to.row(0));
}

void Device::read_matrix(const Matrix& from, std::span<float> values) const {
  std::copy_n(from.row(0), values.size(), values.data());
}

void Device::column_sums(const Matrix& d, float* to) {
  parallel_for_static(threads_, d.columns(), 16, [&](int, Range columns) {
    std::fill_n(to + columns.begin, columns.size(), 0.0F);
    for (std::int64_t r = 0; r < d.rows(); ++r) {
      add(to + columns.begin, d.row(r) + columns.begin, columns.size());
    }
  });
}

/// Starts this many threads at once, and ends them. Throws std::system_error if the system refuses one, for
/// which libgomp would end the process without naming the limit.
static void require_threads(int threads) {
  std::atomic<bool> all_started = false;
  const auto release = [&] {
    all_started = true;
    all_started.notify_all();
  };
  std::vector<std::jthread> others;
  try {
    for (int t = 1; t < threads; ++t) others.emplace_back([&] { all_started.wait(false); });
  } catch (...) {
    release();
    throw;
  }
  release();
}

std::unique_ptr<Device> make_device(const device::BackendOptions& options, const std::string& why_no_gpu) {
  if (options.precision == device::Precision::fp16 || options.precision == device::Precision::tf32 ||
      options.precision == device::Precision::bf16x3) {
    throw InputError(format(
        "train.precision: {0} requires a GPU (CPUs do not support {0} matrix products{1}{2}); use bf16, fp32 or auto",
        to_string(options.precision), why_no_gpu.empty() ? "" : ", and ", why_no_gpu));
  }
  const bool portable = options.kernels == device::Kernels::portable;
  device::Precision precision = options.precision;
  if (precision == device::Precision::automatic) {
    precision = !portable && bf16_gemm_path() == Bf16GemmPath::amx ? device::Precision::bf16
                                                                   : device::Precision::fp32;
  }
  const int threads = options.threads > 0 ? options.threads : omp_get_max_threads();
  require_threads(threads);
  return std::make_unique<Device>(threads, precision, portable, portable ? nullptr : choose_tiles(),
                                  choose_panels());
}

}  // namespace vaecf::cpu
