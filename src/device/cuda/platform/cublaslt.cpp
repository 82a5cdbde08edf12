#include "device/cuda/platform/cublaslt.hpp"

#include "device/cuda/platform/library.hpp"

namespace vaecf::cuda {
namespace {

#define VAECF_TEXT(x) #x
#define VAECF_TEXT_OF(x) VAECF_TEXT(x)
constexpr const char* cublaslt_soname = "libcublasLt.so." VAECF_TEXT_OF(CUBLAS_VER_MAJOR);

}  // namespace

CublasLt load_cublaslt(const char* file, const char* built_with) {
  const Library library("cuBLASLt", file, built_with);
  CublasLt functions;
#define VAECF_FIND(name) \
  functions.name = reinterpret_cast<decltype(functions.name)>(library.find("cublasLt" #name))
  VAECF_CUBLASLT_FUNCTIONS(VAECF_FIND);
#undef VAECF_FIND
  return functions;
}

const CublasLt& cublaslt() {
  static const CublasLt functions = load_cublaslt(cublaslt_soname, VAECF_CUBLASLT);
  return functions;
}

}  // namespace vaecf::cuda
