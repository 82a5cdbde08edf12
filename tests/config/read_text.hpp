#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/config/config.hpp>

#include <string>
#include <vector>

#include "support/messages.hpp"

namespace vaecf::config {

inline Config read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse(text, "c.yaml", overrides);
}

/// Returns the message of the InputError that `text` causes.
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return message_of<InputError>([&] { read(text, overrides); });
}

}  // namespace vaecf::config
