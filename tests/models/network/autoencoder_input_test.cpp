#include "models/network/autoencoder_options.hpp"
#include "run/bad_input_fixture.hpp"

namespace vaecf::training {
namespace {

using AutoencoderInput = BadInput;

TEST_F(AutoencoderInput, WithWeightsOfADatasetRequiresOutputsAboveOne) {
  const std::string weighted = make("weighted.h5", {.weighted = true});
  const auto change = [&](device::Loss loss, const std::string& file) {
    return [=](config::TrainingConfig& o) {
      o.data.file = file;
      o.model = {ModelType::autoencoder, {8}, 4};
      own_options<models::AutoencoderOptions>(o.model).loss = loss;
    };
  };
  for (const int ranks : {1, 3}) {
    expect_refusal("predicts probabilities between 0 and 1, but " + weighted + " has interaction weights",
                   change(device::Loss::squared, weighted), ranks);
    expect_refusal("", change(device::Loss::multinomial, weighted), ranks);
    expect_refusal("", change(device::Loss::squared, options_.data.file), ranks);
  }
}

}  // namespace
}  // namespace vaecf::training
