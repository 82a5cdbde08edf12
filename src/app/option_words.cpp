#include "app/option_words.hpp"

#include <cctype>
#include <string_view>

namespace vaecf::app {
namespace {

/// Returns whether a name of letters, digits and underscores may go on with this character.
bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Replaces `name` where it is no part of a longer dotted name.
void replace_name(std::string& text, std::string_view name, std::string_view other) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || (!is_of_name(text[at - 1]) && text[at - 1] != '.' && text[at - 1] != '-');
    const bool ends =
        end == text.size() ||
        (!is_of_name(text[end]) && !(text[end] == '.' && end + 1 < text.size() && is_of_name(text[end + 1])));
    if (begins && ends) text.replace(at, name.size(), other);
    at += begins && ends ? other.size() : name.size();
  }
}

}  // namespace

std::string option_words(std::string text, const OptionKeys& options) {
  for (const auto& [option, key] : options) {
    // The message of a key names how it was set: "--set KEY=VALUE: KEY must be ...".
    if (!text.starts_with("--set " + key + "=")) continue;
    const std::size_t message = text.find(": " + key);
    if (message != std::string::npos) text.erase(0, message + 2);
  }
  replace_name(text, "which data.source names", "which --user, --item, --rating or --time names");
  replace_name(text, "data.prepare.split:", "--split");  // Messages name it with its value.
  for (const auto& [option, key] : options) replace_name(text, key, option);
  return text;
}

}  // namespace vaecf::app
