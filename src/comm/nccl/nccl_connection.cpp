#include "comm/nccl/nccl_connection.hpp"

#include <mpi.h>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/nccl.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "comm/nccl/nccl_settings.hpp"

namespace vaecf::comm {
namespace {

[[noreturn]] void fail(ncclResult_t result, const std::string& call) {
  std::string text = vaecf::format("NCCL: {} failed: {}", call, ncclGetErrorString(result));
  const char* details = ncclGetLastError(nullptr);
  if (details != nullptr && *details != '\0') text += vaecf::format(" ({})", details);
  if (result == ncclRemoteError)
    throw RunError(text + "; another rank ended or can no longer be reached: see what it says itself");
  if (result == ncclSystemError || result == ncclUnhandledCudaError) {
    text +=
        "; "
        "ranks on one host need space in /dev/shm (containers get more by --shm-size=1g --ulimit memlock=-1)";
  }
  throw RunError(text + "; NCCL_DEBUG=INFO in the environment makes NCCL say more");
}

/// What is under way is no failure.
void check_nccl(ncclResult_t result, const std::string& call) {
  if (result != ncclSuccess && result != ncclInProgress) fail(result, call);
}

/// Open MPI answers other ranks only while it is called.
void let_mpi_proceed() {
  int on = 0;
  int over = 0;
  MPI_Initialized(&on);
  MPI_Finalized(&over);
  if (on == 0 || over != 0) return;
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/// NCCL's id of rank 0 for all ranks; one of zeros says that rank 0 has none.
ncclUniqueId share_id(Communicator& control) {
  ncclUniqueId id{};
  const ncclResult_t result = control.rank() == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
  if (result != ncclSuccess) id = {};
  control.broadcast(std::span<char>(id.internal), 0);
  check_nccl(result, "looking for a network");
  if (std::ranges::all_of(id.internal, [](char byte) { return byte == 0; }))
    throw RunError("NCCL does not start on rank 0: see what that rank says");
  return id;
}

}  // namespace

int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "asking for its version");
  return version;
}

std::string nccl_library() {
  return vaecf::format("NCCL {}", nccl_version_text(nccl_version()));
}

NcclConnection::NcclConnection(Communicator& control, double timeout)
    : name_(vaecf::format("rank {} on {}", control.rank(), control.host())),
      timeout_(timeout),
      exceptions_at_start_(std::uncaught_exceptions()) {
  const std::string what = vaecf::format("connecting {} ranks", control.size());
  const ncclUniqueId id = share_id(control);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // else a rank that waits for others could not even be aborted
  try {
    check_nccl(ncclCommInitRankConfig(&comm_, control.size(), id, control.rank(), &config), what);
    await(what, timeout);
  } catch (...) {
    abandon();
    throw;
  }
}

NcclConnection::~NcclConnection() {
  if (std::uncaught_exceptions() > exceptions_at_start_) abandon();
  if (comm_ == nullptr) return;
  try {
    const std::string what = "parting from the other ranks";
    check_nccl(ncclCommFinalize(comm_), what);
    await(what, timeout_);
    ncclCommDestroy(comm_);
  } catch (...) {
    abandon();
  }
}

bool NcclConnection::done(const std::string& what) const {
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm_, &state), "asking for errors");
  check_nccl(state, what);
  return state == ncclSuccess;
}

void NcclConnection::await(const std::string& what, double timeout) const {
  using Clock = std::chrono::steady_clock;
  // NCCL hands most calls to a thread of its own, which is soon done: a sleep would be the longer part.
  constexpr std::chrono::microseconds soon{200};
  const auto begin = Clock::now();
  while (!done(what)) {
    let_mpi_proceed();
    const auto waited = Clock::now() - begin;
    if (waited > std::chrono::duration<double>(timeout)) {
      throw RunError(vaecf::format(
          "{} has waited {:g} s (distributed.timeout) for NCCL: {}. "
          "Another rank did not come to it, or cannot be reached: see what the other ranks print, and whether their hosts reach each other (NCCL_DEBUG=INFO tells by which network, NCCL_SOCKET_IFNAME chooses it)",
          name_, timeout, what));
    }
    if (waited < soon) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

void NcclConnection::start(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& call) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) throw RunError("the connection to the other ranks was given up after an error");
  try {
    const ncclResult_t result = call(comm_);
    check_nccl(result, what);
    // A call that hangs stands still, which the watchdog sees.
    if (result == ncclInProgress) await(what, std::numeric_limits<double>::infinity());
  } catch (...) {
    abandon();
    throw;
  }
}

void NcclConnection::check() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && comm_ != nullptr) done("an exchange between ranks");
}

void NcclConnection::abandon() noexcept {
  if (comm_ == nullptr) return;
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
