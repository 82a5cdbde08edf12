#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>
#include <map>

namespace vaecf::comm {

/// Which elements have been reported, in any order but none twice.
class Coverage {
 public:
  void clear() { covered_.clear(); }
  /// False where part of `range` (not empty) was there before; then nothing is added.
  bool add(Range range);

 private:
  std::map<std::int64_t, std::int64_t> covered_;  // begin -> end, neighbours merged
};

}  // namespace vaecf::comm
