#pragma once

#include <optional>
#include <string>

namespace vaecf::comm {

/// How many processes the launcher says that it started beside and with this one; empty where no launcher is
/// seen or it does not say.
std::optional<int> launcher_size();

/// The number that the launcher gave this process, which becomes its rank; empty as above.
std::optional<int> launcher_rank();

/// What to say before MPI starts, where srun started several tasks by a protocol that most MPI libraries do
/// not speak: it may end in a message that names no way out. Empty where there is nothing to say.
std::string launch_advice();

}  // namespace vaecf::comm
