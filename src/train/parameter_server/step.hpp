#pragma once

#include <vaecf/comm/parameter_server/channel.hpp>
#include <vaecf/data/virtual_shards.hpp>
#include <vaecf/model/network.hpp>
#include <vaecf/optim/optimizer.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>
#include <vaecf/train/wire_bytes.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "train/parameter_server/server.hpp"
#include "train/shard_rows.hpp"

namespace vaecf::train {

/// One rank's part of the steps with a parameter server: workers send their gradients to the servers, which
/// update the slices of the weights that they hold and send them back (Li et al., OSDI 2014). Workers hold no
/// moments, servers compute no gradients. After a step a worker holds the weights of its next step, and a
/// server whatever was there before: see sync_weights(). For backends that compute in host memory. All ranks
/// call all of it alike.
class ParameterServerStep {
 public:
  /// Starts from the weights that `model` holds. All arguments outlive this object; `features` may be null.
  /// Collective.
  ParameterServerStep(const SessionOptions& options, const Services& services, model::Network& model,
                      ShardRows& items, ShardRows* features);

  /// Virtual shards whose users this rank trains on: none on servers.
  static Range owned_shards(const SessionOptions& options, const comm::Communicator& communicator,
                            const data::VirtualShards& shards);
  /// Parameters whose size is a multiple of this have room for the padding of buckets.
  static std::int64_t size_multiple(const SessionOptions& options);

  bool is_worker() const { return !server_; }

  /// Runs the step that `numbers`, all but the rule, tell, of a batch of `batch_users` users on all ranks.
  void run(backend::StepNumbers numbers, std::int64_t batch_users, backend::StepState& step);
  /// Gives every rank the weights of the updates so far.
  void sync_weights();
  /// Rounds the weights, just written in full precision, as a bf16 wire would have.
  void round_weights();
  /// As those of Trainer.
  void set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill);
  const backend::FloatBuffer& flat(FlatState state);
  double update_bytes() const;
  WireBytes wire_bytes() const;
  std::optional<Staleness> take_staleness();

  model::StepClock clock;  ///< phase times; off by default

 private:
  ParameterServerStep(const SessionOptions& options, const Services& services, model::Network& model,
                      ShardRows& items, ShardRows* features, comm::Roles roles, const comm::BucketPlan& plan);
  backend::FloatBuffer& moment(FlatState state) {
    return state == FlatState::first_moment ? optimizer_.first_moment() : optimizer_.second_moment();
  }
  /// Returns the squares of this worker's gradient as an update by itself; 0 unless it is clipped.
  double gradient_squares(std::int64_t step, std::int64_t users);
  /// Copies this server's slice of `flat` to `shard`.
  void pack(const backend::FloatBuffer& flat, backend::FloatBuffer& shard);

  Services services_;
  model::Network& model_;
  ShardRows& items_;
  ShardRows* features_;
  optim::Optimizer optimizer_;
  std::unique_ptr<backend::FloatBuffer> gradients_;
  comm::ParameterServerChannel channel_;
  bool asynchronous_;
  bool clips_;
  std::unique_ptr<ParameterServer> server_;           // null on workers
  std::unique_ptr<backend::StepState> own_gradient_;  // for its norm
  bool synced_ = true;                                // all ranks hold the weights of all updates
};

}  // namespace vaecf::train
