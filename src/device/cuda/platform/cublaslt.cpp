#include "device/cuda/platform/cublaslt.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <dlfcn.h>

#include <string>

namespace vaecf::cuda {
namespace {

#define VAECF_TEXT(x) #x
#define VAECF_TEXT_OF(x) VAECF_TEXT(x)
constexpr const char* soname = "libcublasLt.so." VAECF_TEXT_OF(CUBLAS_VER_MAJOR);

}  // namespace

CublasLt load_cublaslt(const char* library, const char* built_with) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string reason = dlerror();
    handle = dlopen(built_with, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      throw RunError(format(
          "GPU: cuBLASLt cannot be loaded: {}; install it from the CUDA toolkit, add its folder to LD_LIBRARY_PATH, or train with device: cpu",
          reason));
    }
  }
  CublasLt functions;
#define VAECF_FIND(name)                                                                        \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(handle, "cublasLt" #name)); \
  if (functions.name == nullptr) {                                                              \
    throw RunError(format("GPU: {} is not a compatible cuBLASLt: {}", library, dlerror()));     \
  }
  VAECF_CUBLASLT_FUNCTIONS(VAECF_FIND);
#undef VAECF_FIND
  return functions;
}

const CublasLt& cublaslt() {
  static const CublasLt functions = load_cublaslt(soname, VAECF_CUBLASLT);
  return functions;
}

}  // namespace vaecf::cuda
