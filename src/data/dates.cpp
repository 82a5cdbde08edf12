#include "data/dates.hpp"

#include <charconv>
#include <chrono>
#include <cstddef>
#include <system_error>

namespace vaecf::data {
namespace {

/// Takes what it is asked for from the beginning of a text; what is not there is left.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  bool take(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool digits(std::size_t count, int& number) {
    if (rest_.size() < count || rest_.front() == '-') return false;
    const char* const end = rest_.data() + count;
    const auto [stop, error] = std::from_chars(rest_.data(), end, number);
    if (error != std::errc() || stop != end) return false;
    rest_.remove_prefix(count);
    return true;
  }
  /// Digits behind the point.
  bool fraction(double& number) {
    double digit = 0.1;
    const std::size_t before = rest_.size();
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
         rest_.remove_prefix(1), digit /= 10)
      number += digit * (rest_.front() - '0');
    return rest_.size() < before;
  }

 private:
  std::string_view rest_;
};

bool parse_clock(Scanner& text, double& seconds) {
  int hour = 0;
  int minute = 0;
  int second = 0;
  double fraction = 0.0;
  if (!text.digits(2, hour)) return false;
  text.take(":");
  if (!text.digits(2, minute)) return false;
  const bool colon = text.take(":");
  if (!text.digits(2, second) && colon) return false;
  if (text.take(".,") && !text.fraction(fraction)) return false;
  constexpr int leap_second = 60;
  if (hour > 24 || minute > 59 || second > leap_second) return false;
  seconds += 3600.0 * hour + 60.0 * minute + second + fraction;
  return true;
}

bool parse_zone(Scanner& text, double& seconds) {
  if (text.take("Zz")) return true;
  const bool east = text.take("+");
  if (!east && !text.take("-")) return true;
  int hours = 0;
  int minutes = 0;
  if (!text.digits(2, hours)) return false;
  if (text.take(":") && text.at_end()) return false;
  if (!text.at_end() && !text.digits(2, minutes)) return false;
  seconds -= (east ? 1 : -1) * (3600.0 * hours + 60.0 * minutes);
  return true;
}

}  // namespace

bool parse_date(std::string_view text, double& seconds) {
  Scanner rest(text);
  int year = 0;
  int month = 0;
  int day = 0;
  if (!rest.digits(4, year)) return false;
  rest.take("-/");
  if (!rest.digits(2, month)) return false;
  rest.take("-/");
  if (!rest.digits(2, day)) return false;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return false;
  seconds = 86400.0 * static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  if (rest.at_end()) return true;
  if (!rest.take(" Tt") || !parse_clock(rest, seconds)) return false;
  rest.take(" ");
  return parse_zone(rest, seconds) && rest.at_end();
}

}  // namespace vaecf::data
