#include "device/cuda/platform/cusparse.hpp"

#include "device/cuda/platform/library.hpp"

namespace vaecf::cuda {
namespace {

#define VAECF_TEXT(x) #x
#define VAECF_TEXT_OF(x) VAECF_TEXT(x)
constexpr const char* cusparse_soname = "libcusparse.so." VAECF_TEXT_OF(CUSPARSE_VER_MAJOR);

}  // namespace

Cusparse load_cusparse(const char* file, const char* built_with) {
  const Library library("cuSPARSE", file, built_with);
  Cusparse functions;
#define VAECF_FIND(name) \
  functions.name = reinterpret_cast<decltype(functions.name)>(library.find("cusparse" #name))
  VAECF_CUSPARSE_FUNCTIONS(VAECF_FIND);
#undef VAECF_FIND
  return functions;
}

const Cusparse& cusparse() {
  static const Cusparse functions = load_cusparse(cusparse_soname, VAECF_CUSPARSE);
  return functions;
}

}  // namespace vaecf::cuda
