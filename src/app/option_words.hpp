#pragma once

#include <string>
#include <utility>
#include <vector>

namespace vaecf::app {

/// Options of a command and the configuration keys that they set, such as "--user",
/// "data.source.user_column".
using OptionKeys = std::vector<std::pair<std::string, std::string>>;

/// Returns a message with the options that a user typed instead of the keys that they set.
std::string option_words(std::string text, const OptionKeys& options);

}  // namespace vaecf::app
