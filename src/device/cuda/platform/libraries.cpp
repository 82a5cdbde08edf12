#include "device/cuda/platform/libraries.cuh"

#include <vaecf/base/error.hpp>

#include <dlfcn.h>

#include <string>

namespace vaecf::cuda {
namespace {

/// The first available of two libraries, which stays loaded. `name` is that of messages.
struct Library {
  Library(const char* its_name, const char* its_file, const char* built_with)
      : name(its_name), file(its_file), handle(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle != nullptr) return;
    const std::string reason = dlerror();
    handle = dlopen(built_with, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return;
    throw RunError(format(
        "GPU: {} cannot be loaded: {}; install it from the CUDA toolkit, add its folder to LD_LIBRARY_PATH, or train with device: cpu",
        name, reason));
  }
  template <class Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    if (function == nullptr)
      throw RunError(format("GPU: {} is not a compatible {}: {}", file, name, dlerror()));
  }

  const char* name;
  const char* file;
  void* handle;
};

#define VAECF_TEXT(x) #x
#define VAECF_TEXT_OF(x) VAECF_TEXT(x)
constexpr const char* cublaslt_soname = "libcublasLt.so." VAECF_TEXT_OF(CUBLAS_VER_MAJOR);
constexpr const char* cusparse_soname = "libcusparse.so." VAECF_TEXT_OF(CUSPARSE_VER_MAJOR);

}  // namespace

CublasLt load_cublaslt(const char* file, const char* built_with) {
  const Library library("cuBLASLt", file, built_with);
  CublasLt functions;
#define VAECF_FIND(name) library.find("cublasLt" #name, functions.name)
  VAECF_CUBLASLT_FUNCTIONS(VAECF_FIND);
#undef VAECF_FIND
  return functions;
}

Cusparse load_cusparse(const char* file, const char* built_with) {
  const Library library("cuSPARSE", file, built_with);
  Cusparse functions;
#define VAECF_FIND(name) library.find("cusparse" #name, functions.name)
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
