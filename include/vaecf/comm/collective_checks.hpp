#pragma once

#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <string_view>

namespace vaecf::comm {

/// Returns `error`, marked as one that every rank throws.
template <class E>
E on_all_ranks(E error) {
  error.mark_on_all_ranks();
  return error;
}

/// Runs `work` on rank 0 only. Collective. If `work` throws, all ranks throw an InputError or RunError with
/// its message, so that no rank blocks on one that has failed.
void run_on_root(Communicator& communicator, const std::function<void()>& work);

/// Returns the result of `question` on rank 0. Collective. Throws as run_on_root() does.
[[nodiscard]] bool query_root(Communicator& communicator, const std::function<bool()>& question);

/// Throws InputError on all ranks unless `text` is equal on all of them; `what` is its name in the message.
/// Collective.
void require_equal_on_all_ranks(Communicator& communicator, std::string_view text, std::string_view what);

}  // namespace vaecf::comm
