#include <vaecf/base/text.hpp>
#include <vaecf/data/value_text.hpp>

#include <chrono>
#include <cmath>
#include <optional>

#include "data/source/take.hpp"

namespace vaecf::data {
namespace {

constexpr std::string_view digits = "0123456789";

// Consumes and returns the digits at the start.
std::string_view take_digits_of(std::string_view& text) {
  const std::string_view taken = text.substr(0, std::min(text.find_first_not_of(digits), text.size()));
  text.remove_prefix(taken.size());
  return taken;
}

// Consumes a number of two digits, at most `most`.
bool take_pair(std::string_view& text, int most, int& number) {
  if (text.substr(0, 2).find_first_not_of(digits) != std::string_view::npos) return false;
  const bool found = text.size() >= 2 && parse_number(text.substr(0, 2), number) && number <= most;
  text.remove_prefix(std::min<std::size_t>(2, text.size()));
  return found;
}

// Returns the text of a decimal number with a point or an exponent, or nothing for other texts.
std::optional<std::string> number_text(std::string_view text) {
  const bool plus = take(text, "+");
  std::string_view rest = text;
  if (!plus) (void)take(rest, "-");
  const std::string_view whole = take_digits_of(rest);
  const bool point = take(rest, ".");
  const std::string_view fraction = point ? take_digits_of(rest) : "";
  if (whole.empty() && fraction.empty()) return std::nullopt;
  const bool exponent = take(rest, "eE");
  if (exponent) {
    (void)take(rest, "+-");
    if (take_digits_of(rest).empty()) return std::nullopt;
  }
  if (!rest.empty() || (!point && !exponent)) return std::nullopt;
  double number = 0.0;
  if (!parse_number(text, number) || std::isinf(number)) return std::nullopt;
  const auto is_zero = [](std::string_view part) { return part.find_first_not_of('0') == part.npos; };
  if (number == 0.0) return is_zero(whole) && is_zero(fraction) ? std::optional("0") : std::nullopt;
  return format("{}", number);
}

// Consumes the seconds and their fraction behind hh:mm. `fraction`: nothing, or a point and its digits.
bool take_seconds(std::string_view& text, int& seconds, std::string& fraction) {
  if (!take(text, ":")) return true;
  if (!take_pair(text, 59, seconds)) return false;
  if (!take(text, ".")) return true;
  std::string taken(take_digits_of(text));
  if (taken.empty() || taken.size() > 9) return false;
  taken.resize(9, '0');
  if (taken.ends_with("000")) taken.resize(6);
  if (taken != "000000") fraction = "." + taken;
  return true;
}

// Consumes a time zone, if there is one, and sets how far it is ahead of UTC.
bool take_offset(std::string_view& text, std::chrono::minutes& offset) {
  (void)take(text, " ");
  for (const std::string_view name : {"Z", "UTC", "GMT"}) {
    if (text != name) continue;
    text = {};
    return true;
  }
  const bool east = text.starts_with('+');
  if (!take(text, "+-")) return false;
  int hours = 0;
  int minutes = 0;
  if (!take_pair(text, 23, hours)) return false;
  if ((take(text, ":") || !text.empty()) && !take_pair(text, 59, minutes)) return false;
  offset = (east ? 1 : -1) * (std::chrono::hours(hours) + std::chrono::minutes(minutes));
  return text.empty();
}

// Returns the text of a time, or nothing for other texts.
std::optional<std::string> time_text(std::string_view text) {
  const std::string_view year_digits = take_digits_of(text);
  int year = 0;
  int month = 0;
  int day = 0;
  if (year_digits.size() != 4 || !parse_number(year_digits, year) || !take(text, "-") ||
      !take_pair(text, 12, month) || !take(text, "-") || !take_pair(text, 31, day)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  int hour = 0;
  int minute = 0;
  int second = 0;
  std::string fraction;
  std::chrono::minutes offset{0};
  if (!text.empty()) {
    if (!take(text, " T") || !take_pair(text, 23, hour) || !take(text, ":") || !take_pair(text, 59, minute) ||
        !take_seconds(text, second, fraction) || (!text.empty() && !take_offset(text, offset))) {
      return std::nullopt;
    }
  }
  const std::chrono::sys_seconds time = std::chrono::sys_days(date) + std::chrono::hours(hour) +
                                        std::chrono::minutes(minute) + std::chrono::seconds(second) - offset;
  const auto midnight = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day utc{midnight};
  const auto clock = (time - midnight).count();
  if (static_cast<int>(utc.year()) < 1 || static_cast<int>(utc.year()) > 9999) return std::nullopt;
  return format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}{}", static_cast<int>(utc.year()),
                static_cast<unsigned>(utc.month()), static_cast<unsigned>(utc.day()), clock / 3600,
                clock / 60 % 60, clock % 60, fraction);
}

}  // namespace

std::string value_text(std::string_view value) {
  constexpr std::string_view blanks = " \t\n\r\f\v";
  value.remove_prefix(std::min(value.find_first_not_of(blanks), value.size()));
  value = value.substr(0, value.find_last_not_of(blanks) + 1);
  if (auto number = number_text(value)) return *std::move(number);
  if (auto time = time_text(value)) return *std::move(time);
  return std::string(value);
}

std::vector<std::string> values_in(std::string_view field, std::string_view separator) {
  std::vector<std::string> values;
  while (true) {
    const std::size_t end = separator.empty() ? std::string_view::npos : field.find(separator);
    std::string value = value_text(field.substr(0, end));
    if (!value.empty()) values.push_back(std::move(value));
    if (end == std::string_view::npos) return values;
    field.remove_prefix(end + separator.size());
  }
}

}  // namespace vaecf::data
