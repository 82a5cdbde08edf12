#pragma once

#include <string_view>

namespace vaecf::data {

/// Seconds since 1970 of a date with the year first, as ISO 8601 has it and some others nearly: 2005-09-06,
/// 2005/09/06 13:59:01, 2005-09-06T13:59:01.25Z, 20050906T135901, 2005-09-06 13:59+02:00. Without a zone it
/// is taken for UTC. False where it is none, or no day that there is.
bool parse_date(std::string_view text, double& seconds);

}  // namespace vaecf::data
