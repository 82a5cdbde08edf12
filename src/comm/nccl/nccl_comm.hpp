#pragma once

#include <vaecf/comm/communicator.hpp>

#include <nccl.h>

#include <functional>
#include <mutex>
#include <string>

namespace vaecf::comm {

/// Owns a non-blocking NCCL communicator (ncclComm_t), whose state is polled. A failed start() throws
/// RunError and aborts the connection.
class NcclComm {
 public:
  /// Connects the ranks of `control`. `timeout` in seconds limits both connecting and disconnecting. Throws
  /// RunError if NCCL has not connected the ranks by then. Collective.
  NcclComm(Communicator& control, double timeout);
  /// Disconnects from the other ranks (collective), or aborts if an exception is unwinding.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Runs `call` and blocks until NCCL has enqueued it in its stream, so that an event can be recorded after
  /// it. `what` describes the call in messages. Throws RunError if NCCL fails or the connection was aborted.
  void start(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& call);
  /// Throws RunError if NCCL reports an asynchronous error. May be called from any thread; returns
  /// immediately while start() runs in another thread, which then reports the error.
  void check();
  /// Aborts NCCL's kernels on the GPU, so that their memory can be freed. Returns within seconds.
  void abort() noexcept;

 private:
  /// Returns whether the most recent NCCL call has completed (ncclCommGetAsyncError). Throws RunError if it
  /// failed.
  bool done(const std::string& what) const;
  /// Blocks until the most recent NCCL call has completed. Throws RunError if it failed, or after `timeout`
  /// seconds.
  void wait(const std::string& what, double timeout) const;

  std::string name_;  ///< "rank 1 on node7"
  double timeout_;
  int exceptions_at_start_;
  std::mutex mutex_;           ///< serializes NCCL calls; ncclCommGetAsyncError may complete a pending call
  ncclComm_t comm_ = nullptr;  ///< null after abort()
};

/// Returns the version of the NCCL library in use, such as 22809 for 2.28.9. Throws RunError if the query
/// fails.
int nccl_version();

}  // namespace vaecf::comm
