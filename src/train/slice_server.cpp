#include "slice_server.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include "shard_pieces.hpp"

namespace vaecf::train {
namespace {

void require_in_step(int worker, const comm::PushHeader& header, std::int64_t step) {
  if (header.step == step) return;
  throw RunError(
      format("rank {} sends its gradient of step {} where that of step {} is due: the ranks are no "
             "longer in step",
             worker, header.step, step));
}

}  // namespace

SliceServer::SliceServer(const SessionOptions& options, const Services& services,
                         const backend::ParameterLayout& layout, comm::ParameterServerChannel& link,
                         optim::Optimizer& optimizer)
    : backend_(services.backend),
      link_(link),
      optimizer_(optimizer),
      asynchronous_(options.distributed.updates == "asynchronous"),
      clips_(options.train.clip_gradient_norm > 0.0),
      workers_(static_cast<std::size_t>(link.roles().workers)),
      pieces_(shard_pieces(link.plan(), link.roles().server_index(services.communicator.rank()), layout)),
      masters_(services.backend.make_buffer(link.plan().shard_size())),
      gradient_(services.backend.make_buffer(link.plan().shard_size())),
      one_update_(services.backend.make_step_state()),
      clocks_(link.roles().workers, options.distributed.staleness),
      seen_at_(workers_.size()) {
  std::iota(workers_.begin(), workers_.end(), 0);
}

void SliceServer::serve(const UpdateNumbers& numbers, backend::StepState& step, model::StepClock& clock) {
  if (asynchronous_) return serve_as_they_come(numbers.updates_done, clock);
  serve_together(numbers, step, clock);
}

void SliceServer::receive_all(const std::vector<int>& workers) {
  for (std::int64_t b = 0; b < link_.plan().buckets(); ++b) link_.receive_sum(b, workers, *gradient_);
}

void SliceServer::update_bucket(std::int64_t bucket, const backend::StepState& step) {
  optimizer_.step_part(step, pieces_[static_cast<std::size_t>(bucket)], *gradient_, *masters_);
}

void SliceServer::serve_together(const UpdateNumbers& numbers, backend::StepState& step,
                                 model::StepClock& clock) {
  const auto headers = link_.receive_headers(workers_);
  for (const int worker : workers_) {
    require_in_step(worker, headers[static_cast<std::size_t>(worker)], numbers.updates_done);
  }
  if (clips_) {
    receive_all(workers_);
    backend_.add_gradient_squares(*gradient_, {0, gradient_->size()}, step);
    link_.add_over_servers(*backend_.gradient_squares(step).data());
  }
  for (std::int64_t b = 0; b < link_.plan().buckets(); ++b) {
    if (!clips_) link_.receive_sum(b, workers_, *gradient_);
    clock.lap(&model::StepSeconds::reduce);
    update_bucket(b, step);
    clock.lap(&model::StepSeconds::update);
    link_.send_weights(b, *masters_, workers_);
  }
  link_.flush();
  clock.lap(&model::StepSeconds::reduce);
}

void SliceServer::start(std::int64_t round) {
  clocks_.start(round);
  updates_ = round * static_cast<std::int64_t>(workers_.size());
  std::ranges::fill(seen_at_, updates_);
}

void SliceServer::serve_as_they_come(std::int64_t round, model::StepClock& clock) {
  if (clocks_.slowest() != round) start(round);  // as after a resume
  while (clocks_.slowest() == round) {
    const int worker = link_.next_worker();
    const comm::PushHeader header = link_.receive_headers({{worker}}).front();
    require_in_step(worker, header, clocks_.round(worker));
    receive_all({worker});
    clock.lap(&model::StepSeconds::reduce);
    apply(worker, header);
    clock.lap(&model::StepSeconds::update);
    answer(clocks_.release());
  }
}

/// The gradient of one worker's users is an update of its own.
void SliceServer::apply(int worker, const comm::PushHeader& header) {
  clocks_.pushed(worker);
  if (header.users == 0) return;
  backend_.begin_step({.rule = optimizer_.rule(updates_, header.users)}, *one_update_);
  *backend_.gradient_squares(*one_update_).data() = static_cast<float>(header.squares);
  for (std::int64_t b = 0; b < link_.plan().buckets(); ++b) update_bucket(b, *one_update_);
  const std::int64_t age = updates_ - seen_at_[static_cast<std::size_t>(worker)];
  staleness_.age = std::max(staleness_.age, age);
  staleness_.mean_age += static_cast<double>(age);
  ++staleness_.updates;
  ++updates_;
}

void SliceServer::answer(const std::vector<int>& workers) {
  for (std::int64_t b = 0; b < link_.plan().buckets(); ++b) link_.send_weights(b, *masters_, workers);
  link_.flush();
  for (const int worker : workers) seen_at_[static_cast<std::size_t>(worker)] = updates_;
}

Staleness SliceServer::take_staleness() {
  staleness_.ahead = clocks_.take_most_ahead();
  return std::exchange(staleness_, {});
}

}  // namespace vaecf::train
