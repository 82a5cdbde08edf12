#pragma once

#include <cublasLt.h>

namespace vaecf::cuda {

#define VAECF_CUBLASLT_FUNCTIONS(f) \
  f(Create);                        \
  f(Destroy);                       \
  f(GetStatusName);                 \
  f(GetStatusString);               \
  f(Matmul);                        \
  f(MatmulAlgoGetHeuristic);        \
  f(MatmulDescCreate);              \
  f(MatmulDescDestroy);             \
  f(MatmulDescSetAttribute);        \
  f(MatmulPreferenceCreate);        \
  f(MatmulPreferenceDestroy);       \
  f(MatmulPreferenceSetAttribute);  \
  f(MatrixLayoutCreate);            \
  f(MatrixLayoutDestroy)

/// Function pointers to cuBLASLt, without its prefix.
struct CublasLt {
#define VAECF_MEMBER(name) decltype(&::cublasLt##name) name = nullptr
  VAECF_CUBLASLT_FUNCTIONS(VAECF_MEMBER);
#undef VAECF_MEMBER
};

/// Returns the functions of cuBLASLt. The first call loads the library (library.hpp); thread-safe.
const CublasLt& cublaslt();

/// Loads the library from the given files; see Library.
CublasLt load_cublaslt(const char* file, const char* built_with);

}  // namespace vaecf::cuda
