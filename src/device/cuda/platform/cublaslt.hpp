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

/// The functions of cuBLASLt, without their prefix.
struct CublasLt {
#define VAECF_MEMBER(name) decltype(&::cublasLt##name) name = nullptr
  VAECF_CUBLASLT_FUNCTIONS(VAECF_MEMBER);
#undef VAECF_MEMBER
};

/// Loads the library at the first call, on any thread: its start takes 0.1 s and 200 MB of every process,
/// also of those that use no GPU. RunError where it cannot be loaded.
const CublasLt& cublaslt();

/// From the first of the two files that can be loaded: `library` as the loader finds it, or `built_with`.
CublasLt load_cublaslt(const char* library, const char* built_with);

}  // namespace vaecf::cuda
