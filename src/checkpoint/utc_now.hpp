#pragma once

#include <array>
#include <ctime>
#include <string>

namespace vaecf::checkpoint {

/// Returns the time of events in metrics.jsonl: 2026-01-31T23:59:59Z.
inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &parts)};
}

}  // namespace vaecf::checkpoint
