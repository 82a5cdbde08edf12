#pragma once

#include <vaecf/comm/gradient_exchange.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "updater.hpp"

namespace vaecf::train {

/// All ranks sum their gradients and update alike, as distributed.optimizer and distributed.wire say.
/// Replicated, every rank updates all weights. Sharded, each has the masters and moments of its part of every
/// bucket alone. A world of one is replicated, whatever is asked.
class CollectiveUpdater final : public Updater {
 public:
  CollectiveUpdater(const SessionOptions& options, const Services& services, model::Model& model);

  void take_weights() override;
  void set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) override;
  void round_weights() override;
  backend::GradientReady begin(bool overlap) override;
  void sum(backend::StepState& step) override;
  void update(backend::StepState& step, model::StepClock& clock,
              std::span<const backend::Layer> done) override;
  const backend::FloatBuffer& flat(FlatState state) override;
  WireBytes wire_bytes() const override;

 private:
  CollectiveUpdater(const SessionOptions& options, const Services& services, model::Model& model,
                    const comm::BucketPlan& plan, comm::ExchangeMode mode);
  bool alone() const { return services_.communicator.size() == 1; }
  bool sharded() const { return exchange_.mode().sharded; }
  /// For overflows and, where the gradient is clipped, for its norm.
  void look_at(const backend::FloatBuffer& gradients, Range range, backend::StepState& step);
  /// `one` element becomes the sum over ranks.
  void add_up(backend::FloatBuffer& one);
  void await_sums(backend::StepState& step);
  void update_bucket(std::int64_t bucket, backend::StepState& step, model::StepClock& clock);
  void update_shard(backend::StepState& step, model::StepClock& clock);

  bool clips_;
  std::unique_ptr<backend::FloatBuffer> masters_;  // this rank's shard of the weights; null where replicated
  std::vector<std::vector<optim::UpdatePiece>> pieces_;  // by bucket, of the shard
  comm::GradientExchange exchange_;  // the last, so that it ends before the memory that it works on
};

}  // namespace vaecf::train
