#include "comm/nccl/nccl_fakes.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

namespace vaecf::comm::fakes {
namespace {

std::unique_ptr<Library>& holder() {
  static auto held = std::make_unique<Library>();
  return held;
}

const char* type_name(ncclDataType_t type) {
  return type == ncclFloat32 ? "fp32" : type == ncclBfloat16 ? "bf16" : "?";
}

template <class Handle>
Handle new_handle() {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(library().next_handle++));
}

ncclResult_t collective(const char* kind, std::size_t count, ncclDataType_t type, cudaStream_t stream) {
  library().add(std::string(kind) + " " + std::to_string(count) + " " + type_name(type) + " on " +
                name(stream));
  return library().answer;
}

}  // namespace

Library& library() {
  return *holder();
}
void reset() {
  // A hanging abort still accesses the old one.
  static std::vector<std::unique_ptr<Library>> kept;
  kept.push_back(std::move(holder()));
  holder() = std::make_unique<Library>();
}

std::string name(const void* handle) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(handle));
}
cudaEvent_t event(int number) {
  return reinterpret_cast<cudaEvent_t>(static_cast<std::uintptr_t>(number));
}

}  // namespace vaecf::comm::fakes

using vaecf::comm::fakes::collective;
using vaecf::comm::fakes::library;
using vaecf::comm::fakes::name;
using vaecf::comm::fakes::new_handle;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  id->internal[0] = 1;
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId, int rank,
                                    ncclConfig_t* config) {
  library().add("init rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                " blocking=" + std::to_string(config->blocking));
  *comm = new_handle<ncclComm_t>();
  return library().init_answer;
}
// Returns at once, as NCCL 2.28.9 does if `all` does not block; the part is null until `all` is done.
ncclResult_t ncclCommSplit(ncclComm_t, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  library().add("split color " + std::to_string(color) + " key " + std::to_string(key));
  *part = nullptr;
  library().part_place = part;
  return library().split_answer;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  library().add(comm != nullptr && comm == library().part ? "poll part" : "poll");
  if (comm == nullptr) return ncclInvalidArgument;
  const bool busy = library().busy_polls > 0;
  if (busy) --library().busy_polls;
  *state = busy ? ncclInProgress : library().state.load();
  if (*state == ncclSuccess && library().part_place != nullptr)
    *std::exchange(library().part_place, nullptr) = library().part = new_handle<ncclComm_t>();
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  library().add("finalize");
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  library().add("destroy");
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  auto& mine = library();
  mine.add("abort");
  while (mine.abort_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote error" : "some error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "the details";
}
ncclResult_t ncclAllReduce(const void*, void*, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t, cudaStream_t stream) {
  return collective("AllReduce", count, type, stream);
}
ncclResult_t ncclReduceScatter(const void*, void*, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t, cudaStream_t stream) {
  return collective("ReduceScatter", count, type, stream);
}
ncclResult_t ncclAllGather(const void*, void*, std::size_t count, ncclDataType_t type, ncclComm_t,
                           cudaStream_t stream) {
  return collective("AllGather", count, type, stream);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int priority) {
  *stream = new_handle<cudaStream_t>();
  library().add("stream " + name(*stream) + " priority " + std::to_string(priority));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  library().add("wait " + name(event) + " on " + name(stream));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new_handle<cudaEvent_t>();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  library().add("record " + name(event) + " on " + name(stream));
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "some CUDA error";
}
}
