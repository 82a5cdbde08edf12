#include "training/gradient_exchange.hpp"

#include <span>
#include <utility>

#include "training/bucket_plan.hpp"

namespace vaecf::training {

void round_to_bf16_comm(device::Device& device, device::Parameters& weights, std::int64_t size) {
  device::Bf16Buffer rounded = device.make_bf16_buffer(size);
  device.cast_to_bf16(weights.master(), {0, size}, rounded, 0);
  device.cast_to_fp32(rounded, {0, size}, weights.master(), 0);
  device.refresh_copies(weights, {0, weights.layout().size});
}

GradientExchange::GradientExchange(comm::Communicator& world, device::Device& device,
                                   std::vector<ExchangeSection> sections, ExchangeMode mode,
                                   device::Parameters& weights)
    : world_(world), device_(device), sections_(std::move(sections)), mode_(mode), weights_(weights) {
  const std::int64_t size = sections_.back().plan.padded_size();
  bool alone = true;
  for (const auto& [ranks, plan, parameter_group] : sections_) {
    if (plan.ranks() != ranks->size() || weights.master().size() < plan.padded_size())
      throw std::invalid_argument(
          "GradientExchange: the plan is for another number of ranks, or the weights are smaller than its padded size");
    for (std::int64_t b = 0; b < plan.buckets(); ++b) {
      buckets_.push_back(
          {ranks, plan.bucket(b), plan.unpadded(b), plan.part(b, ranks->rank()), plan.shard_range(b)});
    }
    alone = alone && ranks->size() == 1;
  }
  if (alone) mode_ = {};
  gradients_ = device.make_buffer(size);
  if (mode_.bf16_comm) bf16_ = device.make_bf16_buffer(size);
  if (mode_.sharded && mode_.bf16_comm)
    master_shard_ = device.make_buffer(sections_.front().plan.shard_size());
  save_master_shard();
  if (mode_.overlap) ready_ = [this](Range range, device::EventHandle done) { mark_ready(range, done); };
}

GradientExchange::~GradientExchange() {
  for (const ExchangeSection& section : sections_) section.ranks->quiesce();
}

std::int64_t GradientExchange::moment_elements() const {
  const BucketPlan& plan = sections_.back().plan;
  return mode_.sharded ? plan.shard_size() : plan.flat_size();
}

Range GradientExchange::Bucket::without_padding(Range range) const {
  const std::int64_t end = std::min(range.end, elements.end);
  return {std::min(range.begin, end), end};
}

std::vector<Range> GradientExchange::runs_of(int parameter_group) const {
  std::vector<Range> runs;
  std::int64_t first = 0;  // bucket of the section
  for (const ExchangeSection& section : sections_) {
    if (section.parameter_group < 0 || section.parameter_group == parameter_group) {
      const Range run = section.plan.parameter_group(section.parameter_group < 0 ? parameter_group : 0);
      runs.push_back({first + run.begin, first + run.end});
    }
    first += section.plan.buckets();
  }
  return runs;
}

void GradientExchange::begin(int parameter_group) {
  const std::vector<Range> runs = runs_of(parameter_group);
  active_ = {runs.front().begin, runs.back().end};
  started_ = waited_ = active_.begin;
  for (std::int64_t b = active_.begin; b < active_.end; ++b) bucket(b).ready = 0;
  skip_alone();
}

void GradientExchange::skip_alone() {
  while (started_ < active_.end && bucket(started_).alone()) ++started_;
}

void GradientExchange::mark_ready(Range range, device::EventHandle done) {
  const auto after =
      std::ranges::upper_bound(buckets_, range.begin, {}, [](const Bucket& b) { return b.all.begin; });
  for (std::int64_t b = after - buckets_.begin() - 1; b < active_.end && range.size() > 0; ++b) {
    Bucket& now = bucket(b);
    if (now.elements.begin >= range.end) break;
    now.ready += std::min(range.end, now.elements.end) - std::max(range.begin, now.elements.begin);
  }
  for (; started_ < active_.end; skip_alone()) {
    Bucket& next = bucket(started_);
    if (next.ready != next.elements.size()) return;
    start_reduction(next, done);
    ++started_;
  }
}

void GradientExchange::start_reduction(Bucket& bucket, device::EventHandle done) {
  const auto start = [&](auto& values, Range all) {
    bucket.reduction = mode_.sharded ? bucket.ranks->reduce_scatter_async(view(values, bucket.all),
                                                                          view(values, bucket.owned), done)
                                     : bucket.ranks->all_reduce_async(view(values, all), done);
  };
  if (!mode_.bf16_comm) return start(gradients_, bucket.elements);
  device_.wait_event(done);
  device_.cast_to_bf16(gradients_, bucket.all, bf16_, bucket.all.begin);
  done = device_.record_event();
  start(bf16_, bucket.all);
}

void GradientExchange::wait(std::int64_t b) {
  if (b != waited_) return;
  // All reductions start before the first all-gather of weights, so their order is the same on all ranks.
  if (mode_.overlap && started_ != active_.end)
    throw std::logic_error(
        "GradientExchange: the backward pass has not reported every element of the gradient exactly once");
  ++waited_;
  Bucket& now = bucket(b);
  if (now.alone()) return;
  if (!mode_.overlap) start_reduction(now, device_.record_event());
  device_.wait_event(now.ranks->wait(now.reduction));
  const Range summed = mode_.sharded ? now.owned : now.all;
  if (mode_.bf16_comm) device_.cast_to_fp32(bf16_, summed, gradients_, summed.begin);
}

void GradientExchange::all_reduce_stats(device::StepState& step) {
  for (std::int64_t b = active_.begin; b < active_.end; ++b) {
    wait(b);
    const Bucket& now = bucket(b);
    device_.accumulate_gradient_stats(gradients_, now.alone() ? now.elements : now.without_padding(now.owned),
                                      step);
  }
  if (world_.size() == 1) return;
  device::Buffer& stats = device_.gradient_stats(step);
  const std::span<float> all(stats.data(), static_cast<std::size_t>(stats.size()));
  device_.wait_event(world_.wait(world_.all_reduce_async(all, device_.record_event())));
}

UpdatePart GradientExchange::wait_sum(std::int64_t part) {
  const std::int64_t b = active_.begin + part;
  wait(b);
  const Bucket& now = bucket(b);
  if (!mode_.sharded) return {now.elements, 0, b};
  // The exact weights of this rank's part, before they are updated.
  if (master_shard_) device_.copy(*master_shard_, now.shard, weights_.master(), now.owned.begin);
  return {now.without_padding(now.owned), now.shard.begin - now.owned.begin, b};
}

void GradientExchange::gather_weights(const UpdatePart& own) {
  if (!mode_.sharded) return;
  Bucket& now = bucket(own.bucket);
  const auto start = [&](auto& values) {
    now.gather =
        now.ranks->all_gather_async(view(values, now.owned), view(values, now.all), device_.record_event());
  };
  if (mode_.bf16_comm) {
    device_.copy(weights_.master(), now.owned, *master_shard_, now.shard.begin);
    device_.cast_to_bf16(weights_.master(), now.owned, bf16_, now.owned.begin);
    start(bf16_);
  } else {
    start(weights_.master());
  }
  if (!mode_.overlap) finish_gather(now);
}

void GradientExchange::finish() {
  if (!mode_.sharded || !mode_.overlap) return;
  for (std::int64_t b = active_.begin; b < active_.end; ++b) finish_gather(bucket(b));
}

void GradientExchange::finish_gather(const Bucket& bucket) {
  device_.wait_event(bucket.ranks->wait(bucket.gather));
  if (mode_.bf16_comm) device_.cast_to_fp32(bf16_, bucket.all, weights_.master(), bucket.all.begin);
  device_.refresh_copies(weights_, bucket.elements);
}

double GradientExchange::bytes_per_rank(int parameter_group) const {
  double bytes = 0.0;
  for (const Range run : runs_of(parameter_group)) {
    const Bucket& first = buckets_[run.begin];
    const Bucket& last = buckets_[run.end - 1];
    const double ranks = first.ranks->size();
    const std::int64_t end = mode_.sharded || mode_.bf16_comm ? last.all.end : last.elements.end;
    bytes += 2.0 * (ranks - 1.0) / ranks * static_cast<double>(end - first.all.begin) *
             (mode_.bf16_comm ? 2.0 : 4.0);
  }
  return bytes;
}

void GradientExchange::save_master_shard() {
  if (master_shard_) pack(weights_.master(), *master_shard_);
}

void GradientExchange::round_weights() {
  if (master_shard_) round_to_bf16_comm(device_, weights_, gradients_.size());
}

void GradientExchange::pack(const device::Buffer& flat, device::Buffer& packed) {
  pack_shard(device_, sections_.front().plan, world_.rank(), flat, packed);
}

void GradientExchange::all_gather_shards(const device::Buffer& packed, device::Buffer& flat) {
  for (Bucket& bucket : buckets_) {
    device_.copy(packed, bucket.shard, flat, bucket.owned.begin);
    bucket.gather = bucket.ranks->all_gather_async(view(flat, bucket.owned), view(flat, bucket.all),
                                                   device_.record_event());
  }
  for (const Bucket& bucket : buckets_) device_.wait_event(bucket.ranks->wait(bucket.gather));
}

std::vector<ExchangeSection> plan_sections(const comm::RankGrid& grid, const device::ParameterLayout& layout,
                                           const std::vector<Range>& parameter_groups,
                                           std::int64_t bucket_elements) {
  const auto plan = [&](const std::vector<Range>& ranges, comm::Communicator& ranks, std::int64_t begin) {
    const std::int64_t all = layout.size + BucketPlan::alignment_elements;
    return BucketPlan(ranges, ranks.size() == 1 ? all : bucket_elements, ranks.size(), begin);
  };
  std::vector<ExchangeSection> sections;
  if (grid.item_slices() == 1) {
    sections.push_back({&grid.world(), plan(parameter_groups, grid.world(), 0)});
    return sections;
  }
  const auto divided = [&](std::int64_t t) { return layout.tensors[t].spec.item_slice.has_value(); };
  for (std::size_t g = 0; g < parameter_groups.size(); ++g) {
    const Range all = layout.tensors_in(parameter_groups[g]);
    for (std::int64_t first = all.begin, end = first; first < all.end; first = end) {
      while (end < all.end && divided(end) == divided(first)) ++end;
      const Range range{layout.tensors[first].range.begin, layout.tensors[end - 1].range.end};
      comm::Communicator& ranks = divided(first) ? grid.data_parallel_ranks() : grid.world();
      sections.push_back({&ranks, plan({range}, ranks, range.begin), static_cast<int>(g)});
    }
  }
  return sections;
}

}  // namespace vaecf::training
