#pragma once

#include <algorithm>
#include <chrono>

namespace vaecf::comm {

/// Seconds in which this process could run. Whoever looks at least every `longest` seconds while it can has
/// been stopped, suspended with its job or put to sleep where a look comes later: the rest does not count.
class AwakeClock {
 public:
  explicit AwakeClock(double longest) : longest_(longest), last_(steady_seconds()) {}

  double now() {
    const double steady = steady_seconds();
    awake_ += std::min(steady - last_, longest_);
    last_ = steady;
    return awake_;
  }

  static double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  double longest_;
  double last_;
  double awake_ = 0.0;
};

}  // namespace vaecf::comm
