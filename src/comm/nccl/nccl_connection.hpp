#pragma once

#include <nccl.h>

#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <mutex>
#include <string>

namespace vaecf::comm {

/// Ranks joined by NCCL, whose calls do not block: their outcome is polled. Errors: RunError, after which the
/// connection is given up.
class NcclConnection {
 public:
  /// Collective. Throws RunError if NCCL has not connected the ranks of `control` after `timeout` seconds, in
  /// which it also has to part from them in the end.
  NcclConnection(Communicator& control, double timeout);
  /// Parts from the other ranks (collective), or gives up if an exception is unwinding.
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  /// Makes `call` and waits until NCCL has put it into its stream: only then may an event follow it there.
  void start(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& call);
  /// Throws RunError if NCCL has met an error since. From any thread; left to start() while that runs.
  void check();
  /// Ends what the GPU does for other ranks, so that its memory can be freed. Returns within seconds.
  void abandon() noexcept;

 private:
  /// Returns whether what NCCL was asked for last is done.
  bool done(const std::string& what) const;
  /// Waits for it. Throws RunError after `timeout` seconds: NCCL has not come to do `what`.
  void await(const std::string& what, double timeout) const;

  std::string name_;  ///< "rank 1 on node7"
  double timeout_;
  int exceptions_at_start_;
  std::mutex mutex_;  ///< NCCL finishes a call within the question for its state: one thread at a time
  ncclComm_t comm_ = nullptr;  ///< null: given up
};

/// The version of the library in use: 22809 for 2.28.9. RunError.
int nccl_version();

}  // namespace vaecf::comm
