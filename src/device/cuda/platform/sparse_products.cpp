#include "device/cuda/platform/sparse_products.hpp"

#include <cstddef>
#include <cstdint>

#include "device/cuda/platform/checked_libraries.cuh"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {
namespace {

constexpr const char* describing = "describing a product with a sparse matrix";

Owned<cusparseDnMatDescr_t> make_dense(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                       const float* values) {
  cusparseDnMatDescr_t made = nullptr;
  check(cusparse().CreateDnMat(&made, rows, columns, stride, const_cast<float*>(values), CUDA_R_32F,
                               CUSPARSE_ORDER_ROW),
        describing);
  return Owned<cusparseDnMatDescr_t>(made);
}

}  // namespace

struct SparseProducts::State {
  Gpu& gpu;
  // For row-major matrices NVIDIA recommends the second algorithm. Only the third gives the same bits in each
  // run.
  cusparseSpMMAlg_t algorithm;
  Owned<cusparseHandle_t> handle;
  DeviceArray<std::byte> workspace;
};

SparseProducts::SparseProducts(Gpu& gpu, bool deterministic)
    : state_(std::make_unique<State>(
          State{gpu, deterministic ? CUSPARSE_SPMM_CSR_ALG3 : CUSPARSE_SPMM_CSR_ALG2, nullptr, {}})) {
  cusparseHandle_t made = nullptr;
  check(cusparse().Create(&made), "starting cuSPARSE");
  state_->handle.reset(made);
}
SparseProducts::~SparseProducts() = default;

void SparseProducts::run(Stream& stream, const SparseRows& a, const float* b, std::int64_t ldb,
                         std::int64_t n, float* c, std::int64_t ldc) {
  check(cusparse().SetStream(state_->handle.get(), static_cast<cudaStream_t>(stream.native())), describing);
  cusparseSpMatDescr_t made = nullptr;
  check(cusparse().CreateCsr(&made, a.rows, a.columns, a.entries, const_cast<std::int32_t*>(a.offsets),
                             const_cast<std::int32_t*>(a.indices), const_cast<float*>(a.values),
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
        describing);
  const Owned<cusparseSpMatDescr_t> left(made);
  const auto right = make_dense(a.columns, n, ldb, b);
  const auto result = make_dense(a.rows, n, ldc, c);
  const float alpha = 1.0F;
  const float beta = 0.0F;
  const auto call = [&](auto function, auto* memory_or_size) {
    return function(state_->handle.get(), CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                    &alpha, left.get(), right.get(), &beta, result.get(), CUDA_R_32F, state_->algorithm,
                    memory_or_size);
  };
  std::size_t bytes = 0;
  check(call(cusparse().SpMM_bufferSize, &bytes), describing);
  if (static_cast<std::size_t>(state_->workspace.size()) < bytes) {
    stream.synchronize();
    state_->workspace = DeviceArray<std::byte>();
    state_->workspace =
        DeviceArray<std::byte>(state_->gpu, static_cast<std::int64_t>(bytes), "the products' workspace");
  }
  check(call(cusparse().SpMM, static_cast<void*>(state_->workspace.data())),
        "a product with a sparse matrix");
}

}  // namespace vaecf::cuda
