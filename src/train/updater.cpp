#include "updater.hpp"

#include <vaecf/comm/bucket_plan.hpp>

#include "collective_updater.hpp"

namespace vaecf::train {

Updater::Updater(const SessionOptions& options, const Services& services, model::Model& model,
                 std::int64_t elements, std::int64_t size)
    : services_(services),
      model_(model),
      optimizer_(options.optimizer, options.train.weight_decay, services.backend, elements,
                 options.train.clip_gradient_norm),
      gradients_(services.backend.make_buffer(size)) {}

void Updater::round_to_bf16() {
  backend::FloatBuffer& weights = model_.parameters().master();
  const Range all = {0, gradients_->size()};
  const auto rounded = services_.backend.make_narrow_buffer(all.size());
  services_.backend.narrow(weights, all, *rounded, 0);
  services_.backend.widen(*rounded, all, weights, 0);
  services_.backend.weights_changed(model_.parameters());
}

std::unique_ptr<Updater> make_updater(const SessionOptions& options, const Services& services,
                                      model::Model& model) {
  return std::make_unique<CollectiveUpdater>(options, services, model);
}

std::int64_t size_multiple(const comm::Communicator& communicator) {
  return comm::BucketPlan::unit * communicator.size();
}

}  // namespace vaecf::train
