#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/train/trainer.hpp>

#include "overlap.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

namespace vaecf::train {
namespace {

std::int64_t bucket_elements(const comm::DistributedOptions& options) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(options.bucket_mib * 1048576.0 / sizeof(float)));
}

}  // namespace

Trainer::Trainer(const SessionOptions& options, const Services& services, const io::DatasetFile& dataset,
                 std::int64_t min_model_rows)
    : options_(options),
      services_(services),
      shards_(dataset.rows("train"), options.data.virtual_shards),
      order_(shards_, services.communicator.rank(), services.communicator.size(), options.train.batch_size,
             options.train.last_batch == "keep", options.train.seed),
      shard_(dataset.read_rows(
          "train", shards_.owned_rows(services.communicator.rank(), services.communicator.size()))),
      rows_(services.backend.hold_rows(
          shard_.view(), shards_.owned_rows(services.communicator.rank(), services.communicator.size()).begin,
          dataset.items())),
      batch_(services.backend.make_batch()),
      model_(options.model, dataset.items(), services.backend,
             std::max(min_model_rows, order_.max_local_rows())),
      optimizer_(options.optimizer, options.train.weight_decay, services.backend, model_.layout()),
      gradients_(services.backend.make_buffer(model_.layout().size)),
      annealing_(options.train.annealing, order_.steps_per_epoch()),
      reducer_(services.communicator, model_.layout().size, bucket_elements(options.distributed)),
      overlap_(std::make_unique<OverlapChoice>(options.distributed.overlap, services.communicator)),
      clock_(services.backend, false) {
  model_.initialise(options.train.seed);
}

Trainer::~Trainer() = default;

void Trainer::start_epoch(std::int64_t epoch) {
  order_.start_epoch(static_cast<std::uint32_t>(epoch));
}

std::int64_t Trainer::shard_bytes() const {
  return static_cast<std::int64_t>(shard_.offsets.size() * sizeof(std::int64_t) +
                                   shard_.columns.size() * sizeof(std::int32_t));
}

backend::LossSums Trainer::accumulate(std::int64_t t) {
  const bool alone = services_.communicator.size() == 1;
  const backend::StepKey key{options_.train.seed, static_cast<std::uint32_t>(updates_done_)};
  backend::GradientReady ready = [](Range, backend::Completion) {};
  if (!alone) {
    reducer_.begin({gradients_->data(), static_cast<std::size_t>(gradients_->size())}, overlap_->use());
    ready = [this](Range range, backend::Completion) { reducer_.ready(range); };
  }

  clock_.start();
  services_.backend.gather_batch(*rows_, order_.local_rows(t), true, *batch_);
  const backend::LossSums sums =
      model_.forward_backward(*batch_, key, static_cast<float>(beta()), *gradients_, ready, clock_);
  if (!alone) reducer_.finish();
  clock_.lap(&model::StepSeconds::reduce);
  // After the reduction, which may run in another thread and must not outlive the gradient.
  if (!std::isfinite(sums.nll) || !std::isfinite(sums.kl)) {
    throw RunError(
        format("the loss is no longer a number at step {} on rank {} (nll {}, kl {}): the weights have "
               "grown without bound; lower train.optimizer.learning_rate, or look for a precision "
               "that is too narrow",
               updates_done_ + 1, services_.communicator.rank(), sums.nll, sums.kl));
  }
  return sums;
}

void Trainer::step(std::int64_t t, LossTotals& totals) {
  const auto begin = std::chrono::steady_clock::now();
  const double weight = beta();
  const backend::LossSums sums = accumulate(t);
  const std::int64_t users = order_.batch_users(t);
  optimizer_.step(updates_done_, users, *gradients_, model_.parameters());
  clock_.lap(&model::StepSeconds::update);

  totals.nll += sums.nll;
  totals.kl += sums.kl;
  totals.weighted_kl += weight * sums.kl;
  totals.users += static_cast<double>(batch_->users());
  ++updates_done_;
  users_seen_ += users;
  if (overlap_->decided()) return;
  overlap_->report(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (overlap_->decided()) services_.log.debug("{}", overlap_->description());
}

}  // namespace vaecf::train
