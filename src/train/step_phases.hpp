#pragma once

#include <vaecf/model/step_clock.hpp>

#include <array>

namespace vaecf::train {

/// A phase of a training step by the name that users read.
struct StepPhase {
  const char* name;
  double model::StepSeconds::*seconds;
};
inline constexpr std::array<StepPhase, 6> step_phases = {{{"input", &model::StepSeconds::input},
                                                          {"forward", &model::StepSeconds::forward},
                                                          {"loss", &model::StepSeconds::loss},
                                                          {"backward", &model::StepSeconds::backward},
                                                          {"all-reduce", &model::StepSeconds::reduce},
                                                          {"optimiser", &model::StepSeconds::update}}};

}  // namespace vaecf::train
