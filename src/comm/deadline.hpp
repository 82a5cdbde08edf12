#pragma once

#include <memory>
#include <string>
#include <thread>

namespace vaecf::comm {

/// Ends this process, by _Exit, where what it guards takes longer: for calls that nothing else could end.
class Deadline {
 public:
  /// After `seconds`, `words` (nothing where empty) go to standard error and the process ends with `code`.
  /// Where there is no thread to be had, nothing is guarded.
  Deadline(double seconds, std::string words, int code = 1) noexcept;
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace vaecf::comm
