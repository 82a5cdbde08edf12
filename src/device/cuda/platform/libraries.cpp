#include "device/cuda/platform/libraries.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <dlfcn.h>

#include <string>

namespace vaecf::cuda {
namespace {

/// Loads the first available of two libraries. `name` is that of messages.
void* load(const char* name, const char* file, const char* built_with) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const std::string reason = dlerror();
  library = dlopen(built_with, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  throw RunError(format(
      "GPU: {} cannot be loaded: {}; install it from the CUDA toolkit, add its folder to LD_LIBRARY_PATH, or train with device: cpu",
      name, reason));
}

/// Finds a function in `library`, which was loaded as `name`.
template <class Function>
void find(void* library, const char* name, const char* file, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr)
    throw RunError(format("GPU: {} is not a compatible {}: {}", file, name, dlerror()));
}

#define VAECF_TEXT(x) #x
#define VAECF_TEXT_OF(x) VAECF_TEXT(x)
constexpr const char* cublaslt_soname = "libcublasLt.so." VAECF_TEXT_OF(CUBLAS_VER_MAJOR);
constexpr const char* cusparse_soname = "libcusparse.so." VAECF_TEXT_OF(CUSPARSE_VER_MAJOR);

}  // namespace

CublasLt load_cublaslt(const char* file, const char* built_with) {
  void* library = load("cuBLASLt", file, built_with);
  CublasLt functions;
#define VAECF_FIND(name) find(library, "cuBLASLt", file, "cublasLt" #name, functions.name)
  VAECF_CUBLASLT_FUNCTIONS(VAECF_FIND);
#undef VAECF_FIND
  return functions;
}

Cusparse load_cusparse(const char* file, const char* built_with) {
  void* library = load("cuSPARSE", file, built_with);
  Cusparse functions;
#define VAECF_FIND(name) find(library, "cuSPARSE", file, "cusparse" #name, functions.name)
  VAECF_CUSPARSE_FUNCTIONS(VAECF_FIND);
#undef VAECF_FIND
  return functions;
}

const CublasLt& cublaslt() {
  static const CublasLt functions = load_cublaslt(cublaslt_soname, VAECF_CUBLASLT);
  return functions;
}

const Cusparse& cusparse() {
  static const Cusparse functions = load_cusparse(cusparse_soname, VAECF_CUSPARSE);
  return functions;
}

}  // namespace vaecf::cuda
