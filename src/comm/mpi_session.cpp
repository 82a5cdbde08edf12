#include "mpi_session.hpp"

#include "mpi_check.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <array>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace vaecf::comm {
namespace {

constexpr const char* dynamic_rules = "OMPI_MCA_coll_tuned_use_dynamic_rules";
constexpr const char* all_reduce_algorithm = "OMPI_MCA_coll_tuned_allreduce_algorithm";
constexpr const char* ring = "4";  // of "coll tuned allreduce algorithm" in ompi_info

/// Open MPI reads its settings from the environment when it starts; what the user set stays.
void choose(const std::string& algorithm) {
  if (algorithm == "auto") return;
  if (algorithm != "ring") {
    throw InputError(vaecf::format(
        "distributed.algorithm: \"{}\" is not an all-reduce that we can ask MPI for; use ring or auto",
        algorithm));
  }
  constexpr int keep = 0;
  setenv(dynamic_rules, "1", keep);
  setenv(all_reduce_algorithm, ring, keep);
}

bool is_set_to(const char* variable, std::string_view value) {
  const char* text = std::getenv(variable);
  return text != nullptr && text == value;
}

}  // namespace

MpiSession::MpiSession(const std::string& algorithm) : exceptions_at_start_(std::uncaught_exceptions()) {
  int finalised = 0;
  check_mpi(MPI_Finalized(&finalised), "MPI_Finalized");
  if (finalised != 0) throw RunError("MPI has ended in this process and cannot start again");
  int running = 0;
  check_mpi(MPI_Initialized(&running), "MPI_Initialized");
  if (running != 0) {
    check_mpi(MPI_Query_thread(&thread_level_), "MPI_Query_thread");
  } else {
    choose(algorithm);
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level_), "MPI_Init_thread");
    owner_ = true;
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiSession::~MpiSession() {
  if (owner_ && healthy()) MPI_Finalize();
}

bool MpiSession::healthy() const {
  return !given_up_ && std::uncaught_exceptions() <= exceptions_at_start_;
}

std::string MpiSession::library() {
#ifdef OMPI_MAJOR_VERSION
  return vaecf::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#else
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view all(text.data(), static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find('\n')));
#endif
}

std::string MpiSession::thread_level() const {
  switch (thread_level_) {
    case MPI_THREAD_MULTIPLE:
      return "thread level multiple";
    case MPI_THREAD_SERIALIZED:
      return "thread level serialized: no overlap";
    case MPI_THREAD_FUNNELED:
      return "thread level funneled: no overlap";
    default:
      return "thread level single: no overlap";
  }
}

std::string MpiSession::algorithm() {
#ifdef OMPI_MAJOR_VERSION
  const bool rules = is_set_to(dynamic_rules, "1") || is_set_to(dynamic_rules, "true");
  if (rules && is_set_to(all_reduce_algorithm, ring)) return "ring all-reduce";
#endif
  return "the library's choice of all-reduce";
}

}  // namespace vaecf::comm
