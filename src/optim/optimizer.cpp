#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/optim/optimizer.hpp>

#include <cmath>

namespace vaecf::optim {
namespace {

/// Also as the fp32 number that the update computes with.
void require_share(const char* key, double value) {
  if (value >= 0.0 && static_cast<float>(value) < 1.0F) return;
  throw InputError(
      format("train.optimizer.{}: {} would never forget: give a number from 0 to below 1, in fp32, that is "
             "to 0.9999999",
             key, value));
}

/// Also as the fp32 number that the update computes with.
void require_positive(const char* key, double value) {
  if (std::isfinite(value) && static_cast<float>(value) > 0.0F) return;
  throw InputError(format("train.optimizer.{}: {} is not usable: give a number above 0", key, value));
}

}  // namespace

void check(const OptimizerOptions& options) {
  const backend::OptimizerKind kind = options.type;
  require_positive("learning_rate", options.learning_rate);
  if (kind == backend::OptimizerKind::adam) require_share("beta1", options.beta1);
  if (kind != backend::OptimizerKind::sgd) {
    require_share("beta2", options.beta2);
    require_positive("epsilon", options.epsilon);
  }
  if (kind != backend::OptimizerKind::adam) require_share("momentum", options.momentum);
}

void check_clip_norm(double norm) {
  // Its square is an fp32 number too.
  if (norm == 0.0 || (norm >= 1e-15 && norm <= 1e15)) return;
  throw InputError(
      format("train.clip_gradient_norm: {} is not usable: give 0 for no clipping, or a number from 1e-15 to "
             "1e15",
             norm));
}

Rules::Rules(const OptimizerOptions& options, double weight_decay, double clip_norm)
    : options_(options), kind_(options.type), weight_decay_(weight_decay), clip_norm_(clip_norm) {
  check(options);
  if (!std::isfinite(weight_decay) || weight_decay < 0.0) {
    throw InputError(format("train.weight_decay: {} is not usable: give 0 or more", weight_decay));
  }
  check_clip_norm(clip_norm);
}

backend::UpdateRule Rules::rule(std::int64_t updates_done, std::int64_t users) const {
  double rate = options_.learning_rate;
  if (kind_ == backend::OptimizerKind::adam) {
    const auto t = static_cast<double>(updates_done + 1);
    rate *= std::sqrt(1.0 - std::pow(options_.beta2, t)) / (1.0 - std::pow(options_.beta1, t));
  }
  const bool adam = kind_ == backend::OptimizerKind::adam;
  backend::UpdateRule rule;
  rule.kind = kind_;
  rule.rate = static_cast<float>(rate);
  rule.beta1 = static_cast<float>(adam ? options_.beta1 : options_.momentum);
  rule.beta2 = static_cast<float>(options_.beta2);
  rule.epsilon = static_cast<float>(options_.epsilon);
  rule.gradient_scale = static_cast<float>(1.0 / static_cast<double>(users));
  rule.decay = static_cast<float>(2.0 * weight_decay_);
  rule.clip_norm = static_cast<float>(clip_norm_);
  return rule;
}

}  // namespace vaecf::optim
