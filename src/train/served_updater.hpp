#pragma once

#include <vaecf/comm/parameter_server/channel.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "slice_server.hpp"
#include "updater.hpp"

namespace vaecf::train {

/// The parameter server: workers send servers their gradients, servers update the slices that they hold and
/// send them back (Li et al., OSDI 2014). Workers hold no moments, servers compute no gradients. What a step
/// leaves on a worker are the weights of its next step; on a server, whatever was there: see settle(). For
/// backends that compute on host memory.
class ServedUpdater final : public Updater {
 public:
  ServedUpdater(const SessionOptions& options, const Services& services, model::Model& model,
                comm::Roles roles);

  void take_weights() override;
  void set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) override;
  void round_weights() override;
  void expect(const UpdateNumbers& numbers) override { numbers_ = numbers; }
  backend::GradientReady begin(bool overlap) override;
  void sum(backend::StepState& step) override;
  void update(backend::StepState& step, model::StepClock& clock,
              std::span<const backend::Layer> done) override;
  void settle() override;
  const backend::FloatBuffer& flat(FlatState state) override;
  WireBytes wire_bytes() const override;
  std::optional<Staleness> take_staleness() override;

 private:
  ServedUpdater(const SessionOptions& options, const Services& services, model::Model& model,
                comm::Roles roles, const comm::BucketPlan& plan);
  backend::FloatBuffer& moment(FlatState state) {
    return state == FlatState::first_moment ? optimizer_.first_moment() : optimizer_.second_moment();
  }
  /// Of this worker's gradient as an update by itself; 0 where nobody asks.
  double gradient_squares();
  /// Every server's `shard`, null on workers, into `flat` on all ranks.
  void spread(const backend::FloatBuffer* shard, backend::FloatBuffer& flat);

  comm::ParameterServerChannel link_;
  bool asynchronous_;
  bool clips_;
  std::unique_ptr<SliceServer> server_;               // null on workers
  std::unique_ptr<backend::StepState> own_gradient_;  // for its norm
  UpdateNumbers numbers_;
  bool behind_ = false;  // some ranks lack updates
};

}  // namespace vaecf::train
