#include "coverage.hpp"

#include <iterator>

namespace vaecf::comm {

bool Coverage::add(Range range) {
  auto next = covered_.lower_bound(range.begin);
  const bool hits_next = next != covered_.end() && next->first < range.end;
  const bool hits_previous = next != covered_.begin() && std::prev(next)->second > range.begin;
  if (hits_next || hits_previous) return false;
  if (next != covered_.end() && next->first == range.end) {
    range.end = next->second;
    next = covered_.erase(next);
  }
  if (next != covered_.begin() && std::prev(next)->second == range.begin) {
    std::prev(next)->second = range.end;
  } else {
    covered_.emplace(range.begin, range.end);
  }
  return true;
}

}  // namespace vaecf::comm
