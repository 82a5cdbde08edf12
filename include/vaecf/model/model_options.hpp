#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::model {

/// Users' features as input, if the dataset has them, or not.
enum class FeaturesInput { automatic, off };

/// The network. mult_vae: I -> hidden -> 2 x latent, z, latent -> reversed hidden -> I, tanh between.
/// mult_dae: I -> hidden -> latent (tanh) -> reversed hidden -> I, no sampling, no KL.
struct ModelOptions {
  std::string type = "mult_vae";
  std::vector<std::int64_t> hidden = {600};  ///< widths of the encoder; may be empty
  std::int64_t latent = 200;
  double dropout = 0.5;  ///< share of input items dropped, after normalisation
  /// Share of users whose items are all dropped; those of the others are dropped as `dropout` says.
  double history_dropout = 0.0;
  FeaturesInput features = FeaturesInput::automatic;
};

}  // namespace vaecf::model

template <>
inline constexpr vaecf::EnumNames<vaecf::model::FeaturesInput, 2>
    vaecf::enum_names<vaecf::model::FeaturesInput>{
        {{vaecf::model::FeaturesInput::automatic, "auto"}, {vaecf::model::FeaturesInput::off, "off"}}};
