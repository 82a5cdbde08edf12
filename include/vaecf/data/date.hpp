#pragma once

#include <string>
#include <string_view>

namespace vaecf::data {

/// Parses a date with the year first into seconds since 1970, in ISO 8601 and similar forms: 2005-09-06,
/// 2005/09/06 13:59:01, 2005-09-06T13:59:01.25Z, 20050906T135901, 2005-09-06 13:59+02:00. Without a time zone
/// it is UTC. Returns false if the text is not a valid date.
[[nodiscard]] bool parse_date(std::string_view text, double& seconds);
/// Returns the date of a time in seconds since 1970, in UTC: 2005-09-06, or 2005-09-06T13:59:01.25.
std::string date_text(double seconds);

}  // namespace vaecf::data
