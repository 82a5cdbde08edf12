#pragma once

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

/// Fakes of NCCL and of the CUDA functions for streams and events. nccl_fakes.cpp defines functions of the
/// same names, which replace those of the libraries.
namespace vaecf::comm::fakes {

struct Library {
  /// Returns all calls in order: "init blocking=0", "wait E on S", "AllReduce 5 fp32 on S", "record E on S"
  /// ...
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  void add(const std::string& call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  bool has(const std::string& call) { return std::ranges::count(calls(), call) > 0; }
  void clear() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
  }

  std::atomic<ncclResult_t> answer = ncclSuccess;  ///< result of the following collectives
  std::atomic<ncclResult_t> init_answer = ncclInProgress;
  std::atomic<ncclResult_t> split_answer = ncclSuccess;
  ncclComm_t part = nullptr;         ///< the last communicator that was split from another one
  ncclComm_t* part_place = nullptr;  ///< where to write it when that one is done; null: it is written
  std::atomic<ncclResult_t> state = ncclSuccess;  ///< asynchronous state of the communicator
  std::atomic<int> busy_polls = 0;  ///< number of polls that return "in progress" before `state`
  std::atomic<bool> abort_hangs = false;
  std::atomic<int> next_handle = 1;

 private:
  std::mutex mutex_;
  std::vector<std::string> calls_;
};

/// Returns the current fake library, which reset() replaces by a new one.
Library& library();
void reset();

/// Returns the name of a stream or event in calls().
std::string name(const void* handle);
cudaEvent_t event(int number);

}  // namespace vaecf::comm::fakes
