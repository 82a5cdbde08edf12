#pragma once

#include <vaecf/comm/communicator.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

enum class Health { ok, warn, fail };

const char* to_string(Health health);

/// Who it is that a finding is about.
enum class About { all, host, rank };

const char* to_string(About about);

/// One thing that the doctor looked at.
struct Finding {
  std::string subject;  ///< "memory", "binding", ...
  Health health = Health::ok;
  std::string text;    ///< what was found
  std::string advice;  ///< what to do about it; empty where nothing is
  About about = About::all;
  bool operator==(const Finding&) const = default;
};

/// A finding with all ranks that made it: rank 0 those about all, one rank of each host those about the host.
struct SharedFinding {
  Finding finding;
  std::vector<int> ranks;  ///< ascending
};

/// What all ranks found, equal findings made one, in the order in which subjects were first met. The same on
/// all ranks. Collective.
std::vector<SharedFinding> gather_findings(comm::Communicator& communicator,
                                           const std::vector<Finding>& mine);

}  // namespace vaecf::app
