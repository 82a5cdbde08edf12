#pragma once

#include <vaecf/models/kind.hpp>

#include <gtest/gtest.h>

namespace vaecf::testing {

/// Calls use(kind) for each model, and names it in failures.
template <class Use>
void for_each_kind(const Use& use) {
  for (const models::Kind* kind : models::all_kinds()) {
    SCOPED_TRACE(kind->name());
    use(*kind);
  }
}

/// Calls use(kind) for each model that is solved at once.
template <class Use>
void for_each_solved_kind(const Use& use) {
  for_each_kind([&](const models::Kind& kind) {
    if (kind.solved() != nullptr) use(*kind.solved());
  });
}

/// Calls use(kind) for each model that is trained by steps.
template <class Use>
void for_each_trained_kind(const Use& use) {
  for_each_kind([&](const models::Kind& kind) {
    if (kind.trained() != nullptr) use(*kind.trained());
  });
}

}  // namespace vaecf::testing
