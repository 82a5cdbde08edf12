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

/// Returns the functions of cuBLASLt. The first call loads the library; thread-safe. Loading at program start
/// would cost every process 0.1 s and 200 MB, even without a GPU. Throws RunError if the library cannot be
/// loaded.
const CublasLt& cublaslt();

/// Loads the first available of two libraries: `library`, found by the loader's search path, or `built_with`.
CublasLt load_cublaslt(const char* library, const char* built_with);

}  // namespace vaecf::cuda
