#pragma once

#include <functional>
#include <string>

namespace vaecf::comm {

/// Ends waits that would otherwise last for ever. Times in seconds.
class NcclWatch {
 public:
  /// The world as a wait sees it.
  struct World {
    std::function<double()> now;               ///< never goes back; stands while the process cannot run
    std::function<void(double waited)> pause;  ///< until the next look
    std::function<void()> let_others;          ///< lets calls of other ranks proceed (MPI progress)
  };
  /// A device in whose work points can be marked.
  struct Device {
    std::function<void()> check;    ///< throws where the connection between ranks has failed
    std::function<void()> mark;     ///< marks the end of the work handed out so far
    std::function<bool()> reached;  ///< whether the last mark was reached
  };

  /// A wait ends `grace` seconds after the timeout.
  NcclWatch(World world, int rank, std::string host, double timeout, double grace = 0.0);

  /// Waits until `done`, which may throw. RunError after the timeout: `what` was not done.
  void until(const std::function<bool()>& done, const std::string& what) const;

  /// One look while the host waits for `device`; called all the time, it does something 100 times a second.
  /// RunError where no mark was reached for the timeout, although a wait may span any number of marks. `what`
  /// tells what the device had been given last.
  void look(const Device& device, const std::function<std::string()>& what);

 private:
  [[noreturn]] void give_up(double waited, const std::string& what, const std::string& advice) const;

  World world_;
  int rank_;
  std::string host_;
  double timeout_;
  double grace_;
  double next_look_;
  bool marked_ = false;
  double marked_at_ = 0.0;
};

}  // namespace vaecf::comm
