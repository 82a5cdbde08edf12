#pragma once

#include <vaecf/comm/communicator.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

/// Every rank's text, of any length, in rank order, on all ranks. Collective.
std::vector<std::string> gather_texts(comm::Communicator& communicator, const std::string& mine);

/// "0-3, 8" of 0, 1, 2, 3, 8: ascending numbers.
std::string list_of(const std::vector<int>& numbers);

}  // namespace vaecf::app
