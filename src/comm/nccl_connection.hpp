#pragma once

#include <nccl.h>

#include <functional>
#include <string>

#include "nccl_watch.hpp"

namespace vaecf::comm {

/// Ranks joined by NCCL, without any wait that could last for ever: its calls do not block, and their outcome
/// is polled. Errors: RunError, after which the connection is given up.
class NcclConnection {
 public:
  /// Collective. `id` is that of rank 0.
  NcclConnection(const ncclUniqueId& id, int ranks, int rank, const NcclWatch& watch);
  /// Parts from the other ranks (collective), or gives up where an exception is unwinding.
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  /// Makes `call` and waits until NCCL has put it into its stream: only then may an event follow it there.
  void start(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& call);
  /// RunError where NCCL has met an error since, or was given up.
  void check() const;
  /// Ends what the GPU does for other ranks, so that its memory can be freed. Returns within seconds.
  void abandon() noexcept;

  bool abandoned() const { return comm_ == nullptr; }

 private:
  /// Of what NCCL was asked for last: false while it is under way.
  bool done(const std::string& what) const;
  void close();

  const NcclWatch& watch_;
  int exceptions_at_start_;
  ncclComm_t comm_ = nullptr;
};

/// NCCL's id for ranks that are to be joined. RunError.
ncclUniqueId make_nccl_id();
/// Of the library in use: 22809 for 2.28.9. RunError.
int nccl_version();

}  // namespace vaecf::comm
