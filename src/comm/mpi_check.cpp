#include "mpi_check.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <array>
#include <string>

namespace vaecf::comm {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  throw RunError(
      vaecf::format("{} failed: {} (code {}). Ranks can no longer reach each other; look for a rank or "
                    "host that went away, then start again from the last checkpoint",
                    call, std::string(text.data(), static_cast<std::size_t>(length)), code));
}

}  // namespace vaecf::comm
