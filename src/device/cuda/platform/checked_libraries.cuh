#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/text.hpp>

#include <memory>
#include <type_traits>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/libraries.cuh"

/// Calls of cuBLASLt and cuSPARSE, and their objects.
namespace vaecf::cuda {

/// Throws RunError for a failed call of a library, or for the older error of the device that often causes it
/// and is more specific.
[[noreturn]] inline void fail(const char* what, const char* error, const char* name, const char* advice) {
  vaecf::cuda::check(cudaGetLastError(), what);
  throw RunError(format(
      "GPU: {} failed: {} ({}); see nvidia-smi for a GPU whose memory is full and `dmesg` for Xid messages; {}",
      what, error, name, advice));
}

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(what, cublaslt().GetStatusString(status), cublaslt().GetStatusName(status),
         "train.precision: fp32 requires the least support from a GPU");
}
inline void check(cusparseStatus_t status, const char* what) {
  if (status != CUSPARSE_STATUS_SUCCESS)
    fail(what, cusparse().GetErrorString(status), cusparse().GetErrorName(status),
         "device: cpu computes the same scores");
}

struct Destroy {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { cublaslt().MatmulDescDestroy(p); }
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { cublaslt().MatrixLayoutDestroy(p); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { cublaslt().MatmulPreferenceDestroy(p); }
  void operator()(cublasLtContext* p) const { cublaslt().Destroy(p); }
  void operator()(cusparseContext* p) const { cusparse().Destroy(p); }
  void operator()(cusparseSpMatDescr* p) const { cusparse().DestroySpMat(p); }
  void operator()(cusparseDnMatDescr* p) const { cusparse().DestroyDnMat(p); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

}  // namespace vaecf::cuda
