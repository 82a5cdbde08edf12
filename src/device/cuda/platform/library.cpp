#include "device/cuda/platform/library.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <dlfcn.h>

#include <string>

namespace vaecf::cuda {

Library::Library(const char* name, const char* file, const char* built_with)
    : name_(name), file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const std::string reason = dlerror();
  handle_ = dlopen(built_with, RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  throw RunError(format(
      "GPU: {} cannot be loaded: {}; install it from the CUDA toolkit, add its folder to LD_LIBRARY_PATH, or train with device: cpu",
      name, reason));
}

void* Library::find(const char* function) const {
  void* found = dlsym(handle_, function);
  if (found == nullptr) throw RunError(format("GPU: {} is not a compatible {}: {}", file_, name_, dlerror()));
  return found;
}

}  // namespace vaecf::cuda
