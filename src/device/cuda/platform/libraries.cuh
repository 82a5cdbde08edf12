#pragma once

#include <cublasLt.h>
#include <cusparse.h>

/// The libraries of the CUDA toolkit that are loaded when a GPU is used. Loading all of them at program start
/// would cost every process 0.1 s and 200 MB, even without a GPU.
namespace vaecf::cuda {

#define VAECF_CUBLASLT_FUNCTIONS(f) \
  f(Create);                        \
  f(Destroy);                       \
  f(GetStatusName);                 \
  f(GetStatusString);               \
  f(Matmul);                        \
  f(MatmulAlgoConfigGetAttribute);  \
  f(MatmulAlgoGetHeuristic);        \
  f(MatmulDescCreate);              \
  f(MatmulDescDestroy);             \
  f(MatmulDescSetAttribute);        \
  f(MatmulPreferenceCreate);        \
  f(MatmulPreferenceDestroy);       \
  f(MatmulPreferenceSetAttribute);  \
  f(MatrixLayoutCreate);            \
  f(MatrixLayoutDestroy)

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

/// Function pointers to cuBLASLt, without its prefix.
struct CublasLt {
#define VAECF_MEMBER(name) decltype(&::cublasLt##name) name = nullptr
  VAECF_CUBLASLT_FUNCTIONS(VAECF_MEMBER);
#undef VAECF_MEMBER
};

/// Function pointers to cuSPARSE, without its prefix.
struct Cusparse {
#define VAECF_MEMBER(name) decltype(&::cusparse##name) name = nullptr
  VAECF_CUSPARSE_FUNCTIONS(VAECF_MEMBER);
#undef VAECF_MEMBER
};

/// These return the functions of a library. The first call loads it; thread-safe.
const CublasLt& cublaslt();
const Cusparse& cusparse();

/// These load the first available of two libraries: `file`, found by the loader's search path, or
/// `built_with`. They throw RunError if neither can be loaded, or if it does not contain a function.
CublasLt load_cublaslt(const char* file, const char* built_with);
Cusparse load_cusparse(const char* file, const char* built_with);

}  // namespace vaecf::cuda
