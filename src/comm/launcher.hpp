#pragma once

#include <optional>

namespace vaecf::comm {

/// How many processes the launcher says that it started beside and with this one; empty where no launcher is
/// seen or it does not say.
std::optional<int> launcher_size();

/// The number that the launcher gave this process, which becomes its rank; empty as above.
std::optional<int> launcher_rank();

}  // namespace vaecf::comm
