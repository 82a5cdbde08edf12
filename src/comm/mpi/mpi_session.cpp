#include "comm/mpi/mpi_session.hpp"

#include <vaecf/base/failure.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/messages.hpp>
#include <vaecf/comm/mpi.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <limits>
#include <utility>

#include "comm/watch/exit_timer.hpp"

namespace vaecf::comm {
namespace {

// Parameters of Open MPI (ompi_info --param coll tuned --level 9).
constexpr const char* dynamic_rules = "OMPI_MCA_coll_tuned_use_dynamic_rules";

constexpr const char* all_reduce_in_environment = "OMPI_MCA_coll_tuned_allreduce_algorithm";

constexpr const char* all_reduce_variable = "coll_tuned_allreduce_algorithm";

constexpr int ring = 4;

constexpr double seconds_to_finalize = 60.0;

/// Initializes the MPI tool interface (MPI_T) with MPI's thread level, which Open MPI 4.1 would change
/// otherwise. Returns false if that fails.
bool start_tools() {
  int level = 0;
  return MPI_Query_thread(&level) == MPI_SUCCESS && MPI_T_init_thread(level, &level) == MPI_SUCCESS;
}

/// Sets Open MPI's control variable `name`, which it reads when a communicator is created. Returns false if
/// this MPI library has no such variable.
bool set_variable(const char* name, int value) {
  if (!start_tools()) return false;
  int index = 0;
  int count = 0;
  MPI_T_cvar_handle handle = nullptr;
  const bool done = MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
                    MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS &&
                    MPI_T_cvar_write(handle, &value) == MPI_SUCCESS;
  if (handle != nullptr) MPI_T_cvar_handle_free(&handle);
  MPI_T_finalize();
  return done;
}

class MpiMessages final : public Messages {
 public:
  explicit MpiMessages(Communicator& communicator) : activity_(communicator.activity()), own_(session_) {
    activity_.enter_collective();
    const Activity::Wait wait(activity_);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &own_.comm), "MPI_Comm_dup");
  }

  void send_recv(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs) override {
    const Activity::Wait wait(activity_, "messages");
    requests_.clear();
    // Receives are posted first, so that messages arrive in their final buffers without an extra copy.
    for (const auto& [peer, bytes] : recvs)
      if (!bytes.empty()) post_receive(bytes.data(), mpi_count(bytes.size()), peer, own_.comm, requests_);
    for (const auto& [peer, bytes] : sends)
      if (!bytes.empty()) post_send(bytes.data(), mpi_count(bytes.size()), peer, own_.comm, requests_);
    wait_all(requests_);
  }

  int probe_any() override {
    const Activity::Wait wait(activity_, "await message");
    MPI_Status status;
    check_mpi(MPI_Probe(MPI_ANY_SOURCE, message_tag, own_.comm, &status), "MPI_Probe");
    return status.MPI_SOURCE;
  }

 private:
  Activity& activity_;
  MpiSession session_;
  ScopedComm own_;
  std::vector<MPI_Request> requests_;  // kept between calls for their memory
};

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CausedError(FailureCode::rank_lost,
                    format("{} failed: {} (code {}). The ranks are no longer connected; "
                           "check for a rank or host that failed, then resume from the last checkpoint",
                           call, text.data(), code));
}

int mpi_count(std::size_t count) {
  constexpr auto max_count = std::numeric_limits<int>::max();
  if (count <= static_cast<std::size_t>(max_count)) return static_cast<int>(count);
  throw RunError(format("MPI: the count of a collective must be at most {}, got {} elements or bytes",
                        max_count, count));
}

MpiSession::MpiSession() : exceptions_at_start_(std::uncaught_exceptions()) {
  int finalized = 0;
  check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized != 0) throw RunError("MPI: it was finalized in this process and cannot be initialized again");
  int running = 0;
  check_mpi(MPI_Initialized(&running), "MPI_Initialized");
  if (running != 0) {
    check_mpi(MPI_Query_thread(&thread_level_), "MPI_Query_thread");
  } else {
    // Open MPI reads this only at initialization. It permits choosing the algorithm later.
    constexpr int keep = 0;
    setenv(dynamic_rules, "1", keep);
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level_), "MPI_Init_thread");
    owner_ = true;
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiSession::~MpiSession() {
  if (!owner_ || !healthy()) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const ScopedExitTimer exit_timer(
      seconds_to_finalize,
      format(
          "rank {} is done, but MPI_Finalize has not returned for {:g} s: another rank crashed or hangs at exit. "
          "This process exits without it",
          rank, seconds_to_finalize));
  MPI_Finalize();
}

bool MpiSession::healthy() const {
  return !failed_ && std::uncaught_exceptions() <= exceptions_at_start_;
}

std::string MpiSession::library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  std::string all = text.data();
  all.resize(std::min(all.size(), all.find_first_of(",\n")));
  std::ranges::replace(all, '\t', ' ');  // MPICH's text is a table
  return all;
}

std::string MpiSession::choose_all_reduce() {
  if (const char* users = std::getenv(all_reduce_in_environment)) {
    return format("all-reduce algorithm set by {}={}", all_reduce_in_environment, users);
  }
  return set_variable(all_reduce_variable, ring) ? "ring all-reduce"
                                                 : "all-reduce algorithm chosen by the library";
}

MpiLibrary mpi_library() {
  MpiLibrary library{MpiSession::library(), ""};
  Dl_info found{};
  // Tools that measure MPI replace MPI_Init, but not PMPI_Init.
  if (dladdr(dlsym(RTLD_DEFAULT, "PMPI_Init"), &found) != 0 && found.dli_fname != nullptr)
    library.file = found.dli_fname;
  return library;
}

std::string mpi_transports() {
  // Transports of ob1. Open MPI 5 has both variables of shared memory.
  constexpr std::array<std::pair<const char*, const char*>, 4> components = {
      {{"btl_vader_eager_limit", "shared memory"},
       {"btl_sm_eager_limit", "shared memory"},
       {"btl_tcp_eager_limit", "TCP"},
       {"btl_openib_eager_limit", "InfiniBand (openib)"}}};
  int on = 0;
  if (MPI_Initialized(&on) != MPI_SUCCESS || on == 0 || !start_tools()) return "";
  const auto exists = [](const char* variable) {
    int index = 0;
    return MPI_T_cvar_get_index(variable, &index) == MPI_SUCCESS;
  };
  // Open MPI keeps one layer for messages open: ucx, ob1 or cm, which has no priority and uses libfabric or
  // PSM. The variables of other components may exist without it.
  std::string found;
  if (exists("pml_ucx_priority")) {
    found = "UCX";
  } else if (exists("pml_ob1_priority")) {
    for (const auto& [variable, name] : components) {
      if (exists(variable) && found.find(name) == std::string::npos)
        found += (found.empty() ? "" : ", ") + std::string(name);
    }
  } else if (exists("mtl_ofi_provider_include") || exists("mtl_psm2_priority")) {
    found = "libfabric or PSM";
  }
  MPI_T_finalize();
  return found;
}

std::shared_ptr<Messages> messages_of(Communicator& communicator) {
  if (auto* own = dynamic_cast<Messages*>(&communicator)) return {std::shared_ptr<void>(), own};
  return std::make_shared<MpiMessages>(communicator);
}

}  // namespace vaecf::comm
