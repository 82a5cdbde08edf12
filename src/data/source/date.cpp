#include <vaecf/base/text.hpp>
#include <vaecf/data/date.hpp>

#include <chrono>
#include <cmath>

#include "data/source/take.hpp"

namespace vaecf::data {
namespace {

bool take_digits(std::string_view& text, std::size_t count, int& number) {
  if (text.size() < count || text.front() == '-') return false;
  const bool found = parse_number(text.substr(0, count), number);
  text.remove_prefix(count);
  return found;
}

// Parses hh:mm[:ss[.fraction]], with or without colons, and adds it to `seconds`.
bool take_clock(std::string_view& text, double& seconds) {
  int hour = 0;
  int minute = 0;
  int second = 0;
  double fraction = 0.0;
  if (!take_digits(text, 2, hour)) return false;
  take(text, ":");
  if (!take_digits(text, 2, minute)) return false;
  const bool has_seconds = take(text, ":") || (!text.empty() && text.front() >= '0' && text.front() <= '9');
  if (has_seconds && !take_digits(text, 2, second)) return false;
  if (take(text, ".,")) {
    double digit = 0.1;
    const std::size_t before = text.size();
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), digit /= 10)
      fraction += digit * (text.front() - '0');
    if (text.size() == before) return false;
  }
  seconds += 3600.0 * hour + 60.0 * minute + second + fraction;
  return hour <= 24 && minute <= 59 && second <= 60;  // 60: a leap second
}

// Consumes a name in brackets behind an offset, as Java writes it: Z[UTC], +02:00[Europe/Paris].
void take_zone_name(std::string_view& text) {
  if (text.starts_with('[') && text.find(']') == text.size() - 1) text = {};
}

// Parses Z, UTC, GMT, +hh[:mm] or an empty time zone, and adjusts `seconds`.
bool take_zone(std::string_view& text, double& seconds) {
  for (const std::string_view name : {"UTC", "GMT", "Z", "z"}) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    take_zone_name(text);
    return true;
  }
  const bool east = text.starts_with('+');
  if (!take(text, "+-")) return true;
  int hours = 0;
  int minutes = 0;
  if (!take_digits(text, 2, hours)) return false;
  const bool more = take(text, ":") || (!text.empty() && text.front() != '[');
  if (more && !take_digits(text, 2, minutes)) return false;
  take_zone_name(text);
  seconds -= (east ? 1 : -1) * (3600.0 * hours + 60.0 * minutes);
  return true;
}

}  // namespace

bool parse_date(std::string_view text, double& seconds) {
  int year = 0;
  int month = 0;
  int day = 0;
  if (!take_digits(text, 4, year)) return false;
  take(text, "-/");
  if (!take_digits(text, 2, month)) return false;
  take(text, "-/");
  if (!take_digits(text, 2, day)) return false;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return false;
  seconds = 86400.0 * static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  if (text.empty()) return true;
  if (!take(text, " Tt") || !take_clock(text, seconds)) return false;
  take(text, " ");
  return take_zone(text, seconds) && text.empty();
}

std::string date_text(double seconds) {
  constexpr double per_day = 86400.0;
  const double day = std::floor(seconds / per_day);
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(static_cast<int>(day)))};
  std::string text = format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                            static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  const double rest = seconds - per_day * day;
  if (rest == 0.0) return text;
  const int clock = static_cast<int>(rest);
  text += format("T{:02}:{:02}:{:02}", clock / 3600, clock / 60 % 60, clock % 60);
  std::string fraction = format("{:.6f}", rest - clock).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fraction == "." ? text : text + fraction;
}

}  // namespace vaecf::data
