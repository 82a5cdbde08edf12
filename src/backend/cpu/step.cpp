#include <algorithm>
#include <cmath>

#include "cpu_backend.hpp"

namespace vaecf::cpu {

std::unique_ptr<backend::StepState> CpuBackend::make_step_state() {
  return std::make_unique<CpuStepState>();
}

void CpuBackend::begin_step(const backend::StepNumbers& numbers, backend::StepState& step) {
  CpuStepState& s = cpu(step);
  s.numbers = numbers;
  s.nll = 0.0;
  s.kl = 0.0;
  s.users = 0;
  s.squares = 0.0;
  std::fill_n(s.verdict.data(), 2, 0.0F);
}

backend::FloatBuffer& CpuBackend::verdict(backend::StepState& step) {
  return cpu(step).verdict;
}

void CpuBackend::end_step(backend::StepState& step) {
  CpuStepState& s = cpu(step);
  if (s.sums.broken_step < 0 && !(std::isfinite(s.nll) && std::isfinite(s.kl))) {
    s.sums.broken_step = s.numbers.step;
    s.sums.broken_nll = s.nll;
    s.sums.broken_kl = s.kl;
  }
  s.sums.nll += s.nll;
  s.sums.kl += s.kl;
  s.sums.weighted_kl += static_cast<double>(s.numbers.beta) * s.kl;
  s.sums.users += s.users;
}

void CpuBackend::clear_losses(backend::StepState& step) {
  cpu(step).sums = {};
}

void CpuBackend::set_losses(const backend::LossSums& sums, backend::StepState& step) {
  cpu(step).sums = sums.unbroken();
}

backend::LossSums CpuBackend::read_losses(backend::StepState& step) {
  return cpu(step).sums;
}

std::optional<backend::LossSums> CpuBackend::poll_losses(backend::StepState& step) {
  return cpu(step).sums;
}

std::unique_ptr<backend::Recording> CpuBackend::record(const std::function<void()>& work) {
  work();
  return nullptr;
}

}  // namespace vaecf::cpu
