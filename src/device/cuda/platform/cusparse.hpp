#pragma once

#include <cusparse.h>

namespace vaecf::cuda {

#define VAECF_CUSPARSE_FUNCTIONS(f) \
  f(Create);                        \
  f(CreateCsr);                     \
  f(CreateDnMat);                   \
  f(Destroy);                       \
  f(DestroyDnMat);                  \
  f(DestroySpMat);                  \
  f(GetErrorName);                  \
  f(GetErrorString);                \
  f(SetStream);                     \
  f(SpMM);                          \
  f(SpMM_bufferSize)

/// Function pointers to cuSPARSE, without its prefix.
struct Cusparse {
#define VAECF_MEMBER(name) decltype(&::cusparse##name) name = nullptr
  VAECF_CUSPARSE_FUNCTIONS(VAECF_MEMBER);
#undef VAECF_MEMBER
};

/// Returns the functions of cuSPARSE. The first call loads the library (library.hpp); thread-safe.
const Cusparse& cusparse();

/// Loads the library from the given files; see Library.
Cusparse load_cusparse(const char* file, const char* built_with);

}  // namespace vaecf::cuda
