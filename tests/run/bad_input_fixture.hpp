#pragma once

#include "support/train_fixture.hpp"

namespace vaecf::training {

class BadInput : public TrainTest {
 protected:
  /// Expects `ranks` ranks to refuse changed options with a message that contains `part`, or to accept them
  /// if it is empty.
  void expect_refusal(const std::string& part, const std::function<void(config::TrainingConfig&)>& change,
                      int ranks = 1) {
    SCOPED_TRACE(part);
    config::TrainingConfig options = options_;
    change(options);
    const auto validate = [&] {
      on_ranks(ranks, [&](const run::Run& run) { run::validate_run(run_of(run, options)); });
    };
    if (part.empty()) {
      EXPECT_NO_THROW(validate());
    } else {
      expect_error<InputError>({part}, validate);
    }
  }
};

}  // namespace vaecf::training
