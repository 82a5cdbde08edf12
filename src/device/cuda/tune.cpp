#include "device/cuda/tune.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <utility>

namespace vaecf::cuda {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t Tune::*>, 1> switches = {
    {{"groups", &Tune::groups}}};

}  // namespace

Tune parse_tune(std::string_view text) {
  Tune result;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::string_view name = part.substr(0, part.find('='));
    const std::string_view digits = part.substr(std::min(part.size(), name.size() + 1));
    const auto* found = std::ranges::find(switches, name, [](const auto& entry) { return entry.first; });
    std::int64_t value = -1;
    const char* last = digits.data() + digits.size();
    const bool parsed = std::from_chars(digits.data(), last, value).ptr == last;
    if (found == switches.end() || !parsed || value < 0)
      throw InputError("VAECF_TUNE: " + std::string(part) +
                       " must be SWITCH=INTEGER; docs/PERFORMANCE.md lists the switches");
    result.*(found->second) = value;
  }
  return result;
}

Tune& tune() {
  static Tune current = [] {
    const char* text = std::getenv("VAECF_TUNE");
    return parse_tune(text == nullptr ? "" : text);
  }();
  return current;
}

}  // namespace vaecf::cuda
