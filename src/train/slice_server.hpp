#pragma once

#include <vaecf/comm/parameter_server/channel.hpp>
#include <vaecf/model/step_clock.hpp>
#include <vaecf/optim/optimizer.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/wire_bytes.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "round_clocks.hpp"
#include "updater.hpp"

namespace vaecf::train {

/// A server rank: masters and moments of its part of every bucket, and the updates of them.
class SliceServer {
 public:
  /// `link` and `optimizer`, whose moments are the shard's, outlive this object.
  SliceServer(const SessionOptions& options, const Services& services, const backend::ParameterLayout& layout,
              comm::ParameterServerChannel& link, optim::Optimizer& optimizer);

  backend::FloatBuffer& masters() { return *masters_; }

  /// Takes one gradient from every worker, of the step that `numbers` tell, and answers with weights.
  /// Synchronous: one update of `step`'s rule by the sum of all, then one answer to all. Asynchronous: one
  /// update for each as it comes, and the answer as soon as the worker may go on; who is ahead is served as
  /// well, up to distributed.staleness steps.
  void serve(const UpdateNumbers& numbers, backend::StepState& step, model::StepClock& clock);

  /// Since the last call: sums of ages in mean_age.
  Staleness take_staleness();

 private:
  void serve_together(const UpdateNumbers& numbers, backend::StepState& step, model::StepClock& clock);
  void serve_as_they_come(std::int64_t round, model::StepClock& clock);
  void start(std::int64_t round);
  void apply(int worker, const comm::PushHeader& header);
  void receive_all(const std::vector<int>& workers);
  void update_bucket(std::int64_t bucket, const backend::StepState& step);
  void answer(const std::vector<int>& workers);

  backend::Backend& backend_;
  comm::ParameterServerChannel& link_;
  optim::Optimizer& optimizer_;
  bool asynchronous_;
  bool clips_;
  std::vector<int> workers_;
  std::vector<std::vector<optim::UpdatePiece>> pieces_;  // by bucket
  std::unique_ptr<backend::FloatBuffer> masters_;
  std::unique_ptr<backend::FloatBuffer> gradient_;
  // Asynchronous:
  std::unique_ptr<backend::StepState> one_update_;
  RoundClocks clocks_;
  std::int64_t updates_ = 0;           // applied to the moments
  std::vector<std::int64_t> seen_at_;  // by worker: updates in the weights that it has
  Staleness staleness_;
};

}  // namespace vaecf::train
