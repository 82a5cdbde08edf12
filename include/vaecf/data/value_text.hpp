#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// Returns the text of a value of a feature or category, which is hashed: without blanks around it, and the
/// same for all ways to write a number or a time. A decimal number with a point or an exponent is as Python's
/// repr writes it, without ".0"; one beyond the range of fp64 and integers stay as they are. A time
/// `2024-01-05`, with `10:30`, `10:30:00` or `10:30:00.5` behind a blank or T, is in UTC as
/// `2024-01-05 10:30:00`, with six or nine digits of a fraction that is not 0; Z, UTC, GMT and +01:00 are its
/// time zones. Any other text stays as it is. value_text in python/vaecf/values.py is the same function, and
/// tests/data/value_texts.tsv has values of both.
std::string value_text(std::string_view value);

/// Returns the texts of the values in a field, which `separator` separates; an empty one separates none.
/// Empty values are left out.
std::vector<std::string> values_in(std::string_view field, std::string_view separator);

}  // namespace vaecf::data
