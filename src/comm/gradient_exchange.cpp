#include <vaecf/base/format.hpp>
#include <vaecf/comm/gradient_exchange.hpp>

#include <algorithm>
#include <stdexcept>

#include "coverage.hpp"
#include "flat_view.hpp"

namespace vaecf::comm {

using backend::Completion;

GradientExchange::GradientExchange(Communicator& communicator, backend::Backend& backend,
                                   const BucketPlan& plan, ExchangeMode mode)
    : communicator_(communicator),
      backend_(backend),
      plan_(plan),
      mode_(mode),
      coverage_(std::make_unique<Coverage>()),
      ready_elements_(static_cast<std::size_t>(plan.buckets())) {
  if (plan.ranks() != communicator.size()) {
    throw std::invalid_argument(vaecf::format("GradientExchange: a plan for {} ranks in a world of {}",
                                              plan.ranks(), communicator.size()));
  }
  if (!travels()) return;
  if (mode.sharded) gradient_shard_ = backend.make_buffer(plan.shard_size());
  if (mode.bf16_wire) wire_ = backend.make_narrow_buffer(plan.padded_size());
  if (mode.sharded && mode.bf16_wire) wire_shard_ = backend.make_narrow_buffer(plan.shard_size());
}

GradientExchange::~GradientExchange() {
  // The buffers go next, and a step that failed may have left sums under way.
  communicator_.settle();
}

void GradientExchange::begin(backend::FloatBuffer& gradients, bool overlap) {
  if (gradients_ != nullptr)
    throw std::logic_error("GradientExchange: begin() before the last step's finish()");
  const bool padded = travels() && (mode_.sharded || mode_.bf16_wire);
  const std::int64_t needed = padded ? plan_.padded_size() : plan_.flat_size();
  if (gradients.size() < needed) {
    throw std::logic_error(vaecf::format("GradientExchange: a buffer of {} elements where {} are needed",
                                         gradients.size(), needed));
  }
  gradients_ = &gradients;
  parameters_ = nullptr;
  overlap_ = overlap;
  coverage_->clear();
  std::ranges::fill(ready_elements_, 0);
  sums_.clear();
  weights_.clear();
  awaited_ = 0;
  taken_ = 0;
}

void GradientExchange::require_open(const char* call) const {
  if (gradients_ == nullptr) {
    throw std::logic_error(vaecf::format("GradientExchange: {}() outside begin() and finish()", call));
  }
}

void GradientExchange::require_whole() const {
  for (std::int64_t b = 0; b < plan_.buckets(); ++b) {
    const std::int64_t there = ready_elements_[static_cast<std::size_t>(b)];
    if (there != plan_.filled(b).size()) {
      throw std::logic_error(vaecf::format("GradientExchange: {} of {} elements of bucket {} are ready",
                                           there, plan_.filled(b).size(), b));
    }
  }
}

void GradientExchange::require_next(const char* call, std::int64_t bucket, std::int64_t next) const {
  if (bucket == next && bucket < plan_.buckets()) return;
  throw std::logic_error(vaecf::format("GradientExchange: {}({}) where bucket {} of {} is next", call, bucket,
                                       next, plan_.buckets()));
}

void GradientExchange::ready(Range range, Completion done) {
  require_open("ready");
  if (range.begin < 0 || range.end < range.begin || range.end > plan_.flat_size()) {
    throw std::logic_error(vaecf::format("GradientExchange: [{}, {}) is no range of a buffer of {}",
                                         range.begin, range.end, plan_.flat_size()));
  }
  if (range.size() == 0) return;
  if (!coverage_->add(range)) {
    throw std::logic_error(
        vaecf::format("GradientExchange: part of [{}, {}) was ready before", range.begin, range.end));
  }
  for (std::int64_t b = plan_.bucket_of(range.begin); b < plan_.buckets(); ++b) {
    const Range whole = plan_.filled(b);
    if (whole.begin >= range.end) break;
    ready_elements_[static_cast<std::size_t>(b)] +=
        std::min(range.end, whole.end) - std::max(range.begin, whole.begin);
  }
  if (overlap_ && travels()) start_whole_buckets(done);
}

void GradientExchange::start_whole_buckets(Completion done) {
  while (sums_.size() < ready_elements_.size()) {
    const auto next = static_cast<std::int64_t>(sums_.size());
    if (ready_elements_[sums_.size()] != plan_.filled(next).size()) return;
    sums_.push_back(start_sum(next, done));
  }
}

Ticket GradientExchange::start_sum(std::int64_t bucket, Completion done) {
  const Range whole = plan_.bucket(bucket);
  if (mode_.bf16_wire) {
    backend_.wait_for(done);
    backend_.narrow(*gradients_, whole, *wire_, whole.begin);
    done = backend_.mark();
  }
  if (mode_.sharded) {
    const Range packed = plan_.packed(bucket);
    if (mode_.bf16_wire) {
      return communicator_.start_reduce_scatter_sum(view(*wire_, whole), view(*wire_shard_, packed), done);
    }
    return communicator_.start_reduce_scatter_sum(view(*gradients_, whole), view(*gradient_shard_, packed),
                                                  done);
  }
  if (mode_.bf16_wire) return communicator_.start_all_reduce_sum(view(*wire_, whole), done);
  return communicator_.start_all_reduce_sum(view(*gradients_, plan_.filled(bucket)), done);
}

void GradientExchange::await_sum(std::int64_t bucket) {
  require_open("await_sum");
  require_next("await_sum", bucket, awaited_);
  // All of them, although this one would do: so that, on all ranks, every sum that overlaps starts before the
  // first weights do.
  if (bucket == 0) require_whole();
  if (travels()) {
    if (!overlap_) sums_.push_back(start_sum(bucket, backend_.mark()));
    take_sum(bucket);
  }
  ++awaited_;
}

void GradientExchange::take_sum(std::int64_t bucket) {
  backend_.wait_for(communicator_.wait(sums_[static_cast<std::size_t>(bucket)]));
  if (!mode_.bf16_wire) return;
  if (mode_.sharded) {
    const Range packed = plan_.packed(bucket);
    backend_.widen(*wire_shard_, packed, *gradient_shard_, packed.begin);
  } else {
    const Range whole = plan_.bucket(bucket);
    backend_.widen(*wire_, whole, *gradients_, whole.begin);
  }
}

void GradientExchange::send_weights(std::int64_t bucket, const backend::FloatBuffer& master_shard,
                                    backend::Parameters& parameters) {
  require_open("send_weights");
  if (!mode_.sharded) throw std::logic_error("GradientExchange: replicated weights do not travel");
  require_next("send_weights", bucket, static_cast<std::int64_t>(weights_.size()));
  if (bucket >= awaited_) {
    throw std::logic_error(
        vaecf::format("GradientExchange: weights of bucket {} before its sum was awaited", bucket));
  }
  if (master_shard.size() < plan_.shard_size() || parameters.master().size() < plan_.padded_size()) {
    throw std::logic_error(vaecf::format(
        "GradientExchange: weights of {} elements and a shard of {} where {} and {} are needed",
        parameters.master().size(), master_shard.size(), plan_.padded_size(), plan_.shard_size()));
  }
  parameters_ = &parameters;
  const Range whole = plan_.bucket(bucket);
  const Range packed = plan_.packed(bucket);
  if (mode_.bf16_wire) {
    backend_.narrow(master_shard, packed, *wire_shard_, packed.begin);
    weights_.push_back(communicator_.start_all_gather(view(std::as_const(*wire_shard_), packed),
                                                      view(*wire_, whole), backend_.mark()));
  } else {
    weights_.push_back(communicator_.start_all_gather(view(master_shard, packed),
                                                      view(parameters.master(), whole), backend_.mark()));
  }
  if (!overlap_) take_weights(bucket);
}

void GradientExchange::take_weights(std::int64_t bucket) {
  backend_.wait_for(communicator_.wait(weights_[static_cast<std::size_t>(bucket)]));
  const Range whole = plan_.bucket(bucket);
  if (mode_.bf16_wire) backend_.widen(*wire_, whole, parameters_->master(), whole.begin);
  backend_.weights_changed(*parameters_, plan_.filled(bucket));
  ++taken_;
}

void GradientExchange::finish() {
  require_open("finish");
  require_whole();
  const std::int64_t sent = static_cast<std::int64_t>(weights_.size());
  if (awaited_ != plan_.buckets() || (sent != 0 && sent != plan_.buckets())) {
    throw std::logic_error(vaecf::format("GradientExchange: finish() with {} of {} buckets awaited, {} sent",
                                         awaited_, plan_.buckets(), sent));
  }
  while (taken_ < sent) take_weights(taken_);
  gradients_ = nullptr;
}

}  // namespace vaecf::comm
