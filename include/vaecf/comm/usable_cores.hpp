#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>

namespace vaecf::comm {

/// Returns the number of cores in the combined affinity mask of all ranks of a host, within the CPU limit of
/// their container or job; the minimum over hosts. Collective.
std::int64_t usable_cores(Communicator& ranks);

}  // namespace vaecf::comm
