#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/optim/optimizer.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>
#include <vaecf/train/wire_bytes.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace vaecf::train {

/// From each rank's gradient to new weights, as distributed.* says: the road of the gradient between ranks,
/// and who holds what of weights and moments. All ranks call all of it alike.
class Updater {
 public:
  virtual ~Updater() = default;

  const optim::Optimizer& optimizer() const { return optimizer_; }
  backend::FloatBuffer& gradients() { return *gradients_; }
  /// What lets the backend update the largest layers by itself; only where there is nothing to sum.
  backend::FusedUpdate fused_update() {
    return {model_.parameters(), optimizer_.first_moment(), optimizer_.second_moment()};
  }

  /// The weights were written from outside: the masters follow.
  virtual void take_weights() = 0;
  /// As Trainer::set_flat.
  virtual void set_flat(FlatState state, const std::function<void(backend::FloatBuffer&)>& fill) = 0;
  /// Makes of the weights, just written in full precision, what an update would have left to compute with.
  virtual void round_weights() = 0;
  /// Starts a step. Returns who hears of gradients that are final; empty where nobody needs to.
  virtual backend::GradientReady begin(bool overlap) = 0;
  /// gradients() becomes the sum over all ranks, on all ranks; ends the step without an update.
  virtual void sum(backend::StepState& step) = 0;
  /// Ends the step with the update of all layers but `done`.
  virtual void update(backend::StepState& step, model::StepClock& clock,
                      std::span<const backend::Layer> done) = 0;
  /// As Trainer::flat.
  virtual const backend::FloatBuffer& flat(FlatState state) = 0;

  virtual WireBytes wire_bytes() const = 0;

 protected:
  /// `elements` are updated by this rank, of gradients of `size`.
  Updater(const SessionOptions& options, const Services& services, model::Model& model, std::int64_t elements,
          std::int64_t size);
  /// The weights become what they are after a way over a bf16 wire.
  void round_to_bf16();

  Services services_;
  model::Model& model_;
  optim::Optimizer optimizer_;
  std::unique_ptr<backend::FloatBuffer> gradients_;
};

std::unique_ptr<Updater> make_updater(const SessionOptions& options, const Services& services,
                                      model::Model& model);

/// Parameters whose size is a multiple of this have room for the padding of buckets.
std::int64_t size_multiple(const comm::Communicator& communicator);

}  // namespace vaecf::train
