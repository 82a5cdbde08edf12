#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <string_view>

namespace vaecf::train {

/// Runs `work` on rank 0 alone; where it throws an Error, all ranks throw the same one, so that nobody
/// waits for a rank that has given up. A collective call.
void on_root(comm::Communicator& communicator, const std::function<void()>& work);

/// Returns what `question` answers on rank 0. Collective; throws as on_root().
bool ask_root(comm::Communicator& communicator, const std::function<bool()>& question);

/// InputError on all ranks unless `text` is the same on each of them; `what` names it in the message.
void require_same(comm::Communicator& communicator, std::string_view text, std::string_view what);

}  // namespace vaecf::train
