#include "run/bad_input_fixture.hpp"

namespace vaecf::training {
namespace {

using RecVaeInput = BadInput;

TEST_F(RecVaeInput, SeveralWidthsAreRefusedUnlessNothingIsTrained) {
  options_.model = {ModelType::recvae, {}};
  expect_refusal("recvae has one width", [](config::TrainingConfig&) {});
  on_ranks(2, [&](const run::Run& run) { run::validate_run(run, false); });
}

}  // namespace
}  // namespace vaecf::training
