#include "incidents.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>

#include "last_words.hpp"

namespace vaecf::comm {
namespace {

/// Lines at once: a host that is lost takes all its ranks with it.
constexpr std::size_t most_lines = 8;

std::string at(const RankState& state) {
  return vaecf::format("{}, step {}", to_string(state.phase), state.step);
}

void shorten(std::vector<std::string>& lines) {
  if (lines.size() <= most_lines) return;
  const std::size_t more = lines.size() - most_lines;
  lines.resize(most_lines);
  lines.push_back(vaecf::format("and {} more ranks", more));
}

}  // namespace

std::string Incidents::name(int rank) const {
  return vaecf::format("rank {} on {}", rank, hosts_.at(static_cast<std::size_t>(rank)));
}

std::string Incidents::gone(const RankState& last) const {
  return vaecf::format(
      "{} is gone since {}: killed, out of memory (see dmesg of its host) or crashed. It was last seen in "
      "{}. "
      "The run ends; start it again from its last checkpoint",
      name(last.rank), clock_text(0), at(last));
}

std::string Incidents::describe(const Late& late, const RankState& state, double now) const {
  const double seconds = now - late.since;
  const std::string since = vaecf::format("for {:.0f} s, since {}", seconds, clock_text(seconds));
  std::string text;
  switch (late.how) {
    case Lateness::silent:
      text = vaecf::format(
          "{} has given no sign of life {}: it is stopped, or its host is down or out of reach. It was last "
          "seen in {}",
          name(state.rank), since, at(state));
      break;
    case Lateness::still:
      text = vaecf::format("{} has not moved {}, in {}, and does not wait for others", name(state.rank),
                           since, at(state));
      break;
    case Lateness::waiting:
      text = vaecf::format(
          "{} has waited for other ranks {}, in {}, and of those that are seen none is further behind: the "
          "network, a GPU or the library between ranks may hang",
          name(state.rank), since, at(state));
      break;
  }
  return text + vaecf::format(". The run ends{} {:g} s of this ({})", late.over ? ", after" : " after",
                              late.limit.seconds, late.limit.key);
}

Incidents::Verdict Incidents::judge(std::span<const RankState> states, double now) {
  const std::vector<Late> late = late_ranks(states, now, limits_);
  Verdict verdict;
  for (const Late& one : late) {
    if (!one.over) continue;
    verdict.end_run = true;
    verdict.lines.push_back(describe(one, states[one.index], now));
  }
  if (!verdict.end_run) {
    close_ended(states, late, now, verdict.lines);
    for (const Late& one : late) {
      if (!open_.emplace(one.index, one).second) continue;
      verdict.lines.push_back("warning: " + describe(one, states[one.index], now));
    }
  }
  shorten(verdict.lines);
  return verdict;
}

void Incidents::close_ended(std::span<const RankState> states, const std::vector<Late>& late, double now,
                            std::vector<std::string>& lines) {
  for (auto incident = open_.begin(); incident != open_.end();) {
    const auto& [index, first] = *incident;
    const RankState& state = states[index];
    const bool still_late =
        std::ranges::any_of(late, [i = index](const Late& one) { return one.index == i; });
    const double sign = first.how == Lateness::silent ? state.heard : state.moved;
    if (still_late || limits_.just_back(state, now) || sign <= first.since) {
      ++incident;
      continue;
    }
    lines.push_back(
        vaecf::format("{} goes on after {:.0f} s: {}", name(state.rank), now - first.since, at(state)));
    incident = open_.erase(incident);
  }
}

}  // namespace vaecf::comm
