#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

/// NCCL, and what of CUDA orders streams, played on the host: nccl_fakes.cpp defines their functions, which
/// take the place of those in the libraries.
namespace vaecf::comm::fakes {

struct Library {
  /// What happened, in order: "init blocking=0", "wait E on S", "AllReduce 5 fp32 on S", "record E on S" ...
  std::vector<std::string> calls();
  void add(const std::string& call);
  bool has(const std::string& call);
  void clear();

  std::atomic<ncclResult_t> answer = ncclSuccess;  ///< of the next collectives
  std::atomic<ncclResult_t> init_answer = ncclInProgress;
  std::atomic<ncclResult_t> state = ncclSuccess;  ///< of the communicator
  std::atomic<int> busy_polls = 0;                ///< so many questions are answered "in progress" before
  std::atomic<bool> abort_hangs = false;
  std::atomic<int> next_handle = 1;

 private:
  std::mutex mutex_;
  std::vector<std::string> calls_;
};

/// The one that the functions belong to; made anew by reset().
Library& library();
void reset();

/// The name under which a stream or event stands in calls().
std::string name(const void* handle);
cudaEvent_t event(int number);

}  // namespace vaecf::comm::fakes
