#include "nccl_connection.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/nccl.hpp>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "nccl_settings.hpp"

namespace vaecf::comm {
namespace {

[[noreturn]] void fail(ncclResult_t result, const std::string& call) {
  NcclFailure failure{call, ncclGetErrorString(result), "", result == ncclRemoteError, -1};
  if (const char* details = ncclGetLastError(nullptr)) failure.details = details;
  if (result == ncclSystemError || result == ncclUnhandledCudaError) {
    failure.shared_memory = free_shared_memory();
  }
  throw RunError(to_message(failure));
}

/// What is under way is no failure.
void check_nccl(ncclResult_t result, const std::string& call) {
  if (result != ncclSuccess && result != ncclInProgress) fail(result, call);
}

}  // namespace

ncclUniqueId make_nccl_id() {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "looking for a network");
  return id;
}

int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "asking for its version");
  return version;
}

std::string nccl_library() {
  return vaecf::format("NCCL {}", nccl_version_text(nccl_version()));
}

NcclConnection::NcclConnection(const ncclUniqueId& id, int ranks, int rank, const NcclWatch& watch)
    : watch_(watch), exceptions_at_start_(std::uncaught_exceptions()) {
  const std::string what = vaecf::format("NCCL to connect {} ranks", ranks);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // else a rank that waits for others could not even be aborted
  try {
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, ranks, id, rank, &config);
    check_nccl(result, vaecf::format("connecting {} ranks", ranks));
    watch_.until([&] { return done(vaecf::format("connecting {} ranks", ranks)); }, what);
  } catch (...) {
    abandon();
    throw;
  }
}

NcclConnection::~NcclConnection() {
  if (std::uncaught_exceptions() > exceptions_at_start_) abandon();
  if (abandoned()) return;
  try {
    close();
  } catch (...) {
    abandon();
  }
}

void NcclConnection::close() {
  check_nccl(ncclCommFinalize(comm_), "parting from the other ranks");
  watch_.until([&] { return done("parting from the other ranks"); }, "NCCL to part from the other ranks");
  ncclCommDestroy(std::exchange(comm_, nullptr));
}

bool NcclConnection::done(const std::string& what) const {
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm_, &state), "asking for errors");
  check_nccl(state, what);
  return state == ncclSuccess;
}

void NcclConnection::start(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& call) {
  if (abandoned()) throw RunError("the connection to the other ranks was given up after an error");
  try {
    const ncclResult_t result = call(comm_);
    check_nccl(result, what);
    if (result == ncclInProgress) {
      watch_.until([&] { return done(what); }, vaecf::format("NCCL to start {}", what));
    }
  } catch (...) {
    abandon();
    throw;
  }
}

void NcclConnection::check() const {
  if (abandoned()) throw RunError("the connection to the other ranks was given up after an error");
  done("an exchange between ranks");
}

void NcclConnection::abandon() noexcept {
  if (abandoned()) return;
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  try {
    // NCCL first tells its kernels to end, then waits, for ever if need be, until the last recording that
    // holds them is gone; which it will be when this exception has unwound.
    auto ended = std::make_shared<std::promise<void>>();
    const std::future<void> end = ended->get_future();
    std::thread([comm, ended] {
      ncclCommAbort(comm);
      ended->set_value();
    }).detach();
    end.wait_for(std::chrono::seconds(2));
  } catch (...) {
    // No thread to be had: what is left of NCCL ends with the process.
  }
}

}  // namespace vaecf::comm
