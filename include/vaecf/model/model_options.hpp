#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::model {

/// Use of users' features as input; automatic: if the dataset has features.
enum class FeaturesInput { automatic, off };

/// Architecture of the network, with I items and tanh between layers. mult_vae: I -> hidden -> 2 x latent, z,
/// latent -> reversed hidden -> I. mult_dae: I -> hidden -> latent (tanh) -> reversed hidden -> I, without
/// sampling and KL term.
struct ModelOptions {
  std::string type = "mult_vae";
  std::vector<std::int64_t> hidden = {600};  ///< widths of the encoder; may be empty
  std::int64_t latent = 200;
  double dropout = 0.5;  ///< fraction of input items dropped, after normalization
  /// Fraction of users whose items are all dropped in a step. `dropout` applies to the other users.
  double history_dropout = 0.0;
  FeaturesInput features = FeaturesInput::automatic;
};

}  // namespace vaecf::model

template <>
inline constexpr vaecf::EnumNames<vaecf::model::FeaturesInput, 2>
    vaecf::enum_names<vaecf::model::FeaturesInput>{
        {{vaecf::model::FeaturesInput::automatic, "auto"}, {vaecf::model::FeaturesInput::off, "off"}}};
