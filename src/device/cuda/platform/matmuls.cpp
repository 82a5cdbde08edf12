#include "device/cuda/platform/matmuls.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/libraries.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/sparse_products.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {
namespace {

/// NVIDIA's recommendation for Hopper; large enough for the split sums of all products here.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
constexpr int max_candidates = 16;

/// Throws RunError for a failed call of a library, or for the older error of the device that often causes it
/// and is more specific.
[[noreturn]] void fail(const char* what, const char* error, const char* name, const char* advice) {
  vaecf::cuda::check(cudaGetLastError(), what);
  throw RunError(format(
      "GPU: {} failed: {} ({}); see nvidia-smi for a GPU whose memory is full and `dmesg` for Xid messages; {}",
      what, error, name, advice));
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(what, cublaslt().GetStatusString(status), cublaslt().GetStatusName(status),
         "train.precision: fp32 requires the least support from a GPU");
}
void check(cusparseStatus_t status, const char* what) {
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

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
  }
  throw std::logic_error("not a Number");
}

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublaslt().MatmulDescSetAttribute(description, attribute, &value, sizeof value),
        "describing a product");
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublaslt().MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "describing a product");
}

/// To cuBLASLt, a row-major matrix of `rows` rows is its column-major transpose.
Owned<cublasLtMatrixLayout_t> make_layout(DType dtype, std::int64_t rows, std::int64_t columns,
                                          std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublaslt().MatrixLayoutCreate(&layout, type_of(dtype), static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), stride),
        "describing a matrix");
  return Owned<cublasLtMatrixLayout_t>(layout);
}

/// Returns a power of two that divides the address, at most 256.
std::uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory) | 256U;
  return static_cast<std::uint32_t>(address & -address);
}

/// A product in cuBLASLt's terms. Row-major c = a b is column-major c' = b' a', so b is the first operand.
/// The bias, shared by our rows, applies along columns, as the epilogue requires.
struct MatmulPlan {
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> a, b, c;
  std::vector<cublasLtMatmulAlgo_t> algorithms;  ///< fallbacks follow the one in use
};

MatmulPlan describe(const MatmulSpec& spec, Fp32Products fp32) {
  cublasLtMatmulDesc_t description = nullptr;
  const bool rounds = spec.operands == DType::fp32 && fp32 == Fp32Products::tf32;
  check(cublaslt().MatmulDescCreate(&description, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                    CUDA_R_32F),
        "describing a product");
  MatmulPlan plan;
  plan.description.reset(description);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, spec.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, spec.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (spec.bias) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(spec.result));
  }
  plan.a = spec.a_transposed ? make_layout(spec.operands, spec.k, spec.m, spec.lda)
                             : make_layout(spec.operands, spec.m, spec.k, spec.lda);
  plan.b = spec.b_transposed ? make_layout(spec.operands, spec.n, spec.k, spec.ldb)
                             : make_layout(spec.operands, spec.k, spec.n, spec.ldb);
  plan.c = make_layout(spec.result, spec.m, spec.n, spec.ldc);
  return plan;
}

/// The buffers of a product.
struct Operands {
  const void* a;
  const void* b;
  void* c;
  const void* bias;
};

/// The properties that determine a product's algorithm: its spec and the alignment of its operands.
using PlanKey = std::pair<MatmulSpec, std::array<std::uint32_t, 3>>;

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

struct Matmuls::State {
  State(Gpu& gpu, bool is_deterministic, Fp32Products fp32_products)
      : deterministic(is_deterministic),
        fp32(fp32_products),
        workspace(gpu, static_cast<std::int64_t>(workspace_bytes), "the products' workspace") {
    cublasLtHandle_t made = nullptr;
    check(cublaslt().Create(&made), "starting cuBLASLt");
    handle.reset(made);
  }

  cublasStatus_t start(Stream& stream, const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm,
                       bool accumulate, const Operands& x) {
    const float alpha = 1.0F;
    const float beta = accumulate ? 1.0F : 0.0F;
    return cublaslt().Matmul(handle.get(), plan.description.get(), &alpha, x.b, plan.b.get(), x.a,
                             plan.a.get(), &beta, x.c, plan.c.get(), x.c, plan.c.get(), &algorithm,
                             workspace.data(), workspace_bytes, static_cast<cudaStream_t>(stream.native()));
  }

  /// Returns the algorithms that cuBLASLt expects to be fastest, best first.
  std::vector<cublasLtMatmulAlgo_t> candidates(const MatmulPlan& plan, const MatmulSpec& spec,
                                               const Operands& x) {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublaslt().MatmulPreferenceCreate(&made), "describing a product");
    const Owned<cublasLtMatmulPreference_t> preference(made);
    set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
    // Partial sums are combined in fp32, never in a 16-bit result. For deterministic results they are
    // combined in a fixed order after the last part.
    const bool in_order = deterministic || spec.result != DType::fp32;
    set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(in_order ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                            : CUBLASLT_REDUCTION_SCHEME_MASK));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(x.b));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(x.a));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(x.c));
    set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(x.c));

    std::array<cublasLtMatmulHeuristicResult_t, max_candidates> found{};
    int count = 0;
    const cublasStatus_t status = cublaslt().MatmulAlgoGetHeuristic(
        handle.get(), plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(), made,
        max_candidates, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    check(status, "planning a product");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i) {
      if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[i].algo);
    }
    return algorithms;
  }

  /// Returns the fastest of a few runs in seconds; infinity if the algorithm does not run.
  double seconds(Stream& stream, const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm,
                 const Operands& x) {
    Event begin(Timing::on);
    Event end(Timing::on);
    constexpr double never = std::numeric_limits<double>::infinity();
    double best = never;
    for (int run = 0; run < 4; ++run) {
      stream.record(begin);
      if (start(stream, plan, algorithm, false, x) != CUBLAS_STATUS_SUCCESS) {
        cudaGetLastError();
        return never;
      }
      stream.record(end);
      stream.synchronize();
      // The first run loads the kernel.
      if (run > 0) best = std::min(best, Event::seconds_between(begin, end));
    }
    return best;
  }

  std::size_t fastest(Stream& stream, const MatmulPlan& plan, const Operands& x) {
    std::vector<double> times;
    for (const auto& algorithm : plan.algorithms) times.push_back(seconds(stream, plan, algorithm, x));
    return static_cast<std::size_t>(std::ranges::min_element(times) - times.begin());
  }

  MatmulPlan& plan_for(Stream& stream, const MatmulSpec& spec, const Operands& x) {
    const PlanKey key{spec, {alignment_of(x.a), alignment_of(x.b), alignment_of(x.c)}};
    const auto known = plans.find(key);
    if (known != plans.end()) return known->second;
    MatmulPlan made = describe(spec, fp32);
    if (spec.bias) set(made.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
    made.algorithms = candidates(made, spec, x);
    if (made.algorithms.empty()) {
      throw RunError(format(
          "GPU: cuBLASLt has no algorithm for a product of ({}, {}) by ({}, {}); set train.precision: fp32, which requires the least support",
          spec.m, spec.k, spec.k, spec.n));
    }
    // Timing the algorithms overwrites the result and blocks until the device is done. If either is not
    // allowed, or the product is small, the heuristic's first algorithm is used.
    const bool worth_it = 2.0 * static_cast<double>(spec.m) * spec.n * spec.k >= 1e9;
    if (!deterministic && !spec.accumulate && !stream.capturing() && worth_it) {
      stream.synchronize();  // so that earlier work is not measured
      std::swap(made.algorithms.front(), made.algorithms[fastest(stream, made, x)]);
    }
    return plans.emplace(key, std::move(made)).first->second;
  }

  bool deterministic;
  Fp32Products fp32;
  Owned<cublasLtHandle_t> handle;
  DeviceArray<std::byte> workspace;
  std::map<PlanKey, MatmulPlan> plans;
};

Matmuls::Matmuls(Gpu& gpu, bool deterministic, Fp32Products fp32)
    : state_(std::make_unique<State>(gpu, deterministic, fp32)) {}
Matmuls::~Matmuls() = default;

void Matmuls::run(Stream& stream, const MatmulSpec& spec, const void* a, const void* b, void* c,
                  const void* bias) {
  const Operands x{a, b, c, bias};
  MatmulPlan& plan = state_->plan_for(stream, spec, x);
  if (spec.bias) set(plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  for (;;) {
    const cublasStatus_t status = state_->start(stream, plan, plan.algorithms.front(), spec.accumulate, x);
    const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
                         status == CUBLAS_STATUS_ARCH_MISMATCH;
    if (!refused || plan.algorithms.size() == 1) return check(status, "a product");
    cudaGetLastError();  // nothing ran; try the next algorithm
    plan.algorithms.erase(plan.algorithms.begin());
  }
}

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
