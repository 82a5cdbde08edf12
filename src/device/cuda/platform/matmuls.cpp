#include "device/cuda/platform/matmuls.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/checked_libraries.cuh"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {
namespace {

/// NVIDIA's recommendation for Hopper; large enough for the split sums of all products here.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
constexpr int max_candidates = 16;

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
  bool timed = false;
  double seconds = 0.0;    ///< of the one in use, if timed
  double runner_up = 0.0;  ///< seconds of the second fastest; infinity if there is none
};

MatmulPlan describe_to_cublas(const MatmulSpec& spec, Fp32Products fp32) {
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

/// The properties that determine a product's algorithm: its spec, without `accumulate`, and the alignment of
/// its operands.
using PlanKey = std::pair<MatmulSpec, std::array<std::uint32_t, 3>>;

}  // namespace

struct Matmuls::State {
  State(Gpu& gpu, bool is_deterministic, Fp32Products fp32_products, std::vector<Stream*> other_streams)
      : deterministic(is_deterministic),
        fp32(fp32_products),
        beside(std::move(other_streams)),
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

  /// Moves the fastest algorithm to the front.
  void time_algorithms(Stream& stream, const Operands& x, MatmulPlan& plan) {
    // So that earlier work is not measured.
    stream.synchronize();
    for (Stream* other : beside) other->synchronize();
    std::vector<double> times;
    for (const auto& algorithm : plan.algorithms) times.push_back(seconds(stream, plan, algorithm, x));
    const auto best = std::ranges::min_element(times) - times.begin();
    std::swap(plan.algorithms.front(), plan.algorithms[best]);
    plan.timed = true;
    plan.seconds = times[best];
    times[best] = std::numeric_limits<double>::infinity();
    plan.runner_up = std::ranges::min(times);
  }

  MatmulPlan make_plan(const MatmulSpec& spec, const Operands& x) {
    MatmulPlan made = describe_to_cublas(spec, fp32);
    if (spec.bias) set(made.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
    made.algorithms = candidates(made, spec, x);
    if (made.algorithms.empty()) {
      throw RunError(format(
          "GPU: cuBLASLt has no algorithm for a product of ({}, {}) by ({}, {}); set train.precision: fp32, which requires the least support",
          spec.m, spec.k, spec.k, spec.n));
    }
    return made;
  }

  /// Returns the timed plan of a product that differs in its depth at most; null if there is none.
  const MatmulPlan* timed_plan_like(MatmulSpec spec) const {
    for (const auto& [key, plan] : plans) {
      spec.k = key.first.k;
      spec.lda = key.first.lda;
      spec.ldb = key.first.ldb;
      if (plan.timed && key.first == spec) return &plan;
    }
    return nullptr;
  }

  /// Timing the algorithms overwrites the result and blocks until the device is done. If either is not
  /// allowed, or the product is small, the heuristic's first algorithm is used. A product that accumulates
  /// uses the plan of the one that does not: the first block's, even if the last block of users is smaller.
  MatmulPlan& plan_for(Stream& stream, MatmulSpec spec, const Operands& x) {
    const bool accumulates = std::exchange(spec.accumulate, false);
    const PlanKey key{spec, {alignment_of(x.a), alignment_of(x.b), alignment_of(x.c)}};
    auto known = plans.find(key);
    if (known == plans.end()) {
      MatmulPlan made = make_plan(spec, x);
      const MatmulPlan* like = accumulates ? timed_plan_like(spec) : nullptr;
      if (like != nullptr) made.algorithms.insert(made.algorithms.begin(), like->algorithms.front());
      known = plans.emplace(key, std::move(made)).first;
    }
    MatmulPlan& plan = known->second;
    const bool worth_it = 2.0 * static_cast<double>(spec.m) * spec.n * spec.k >= 5e7;
    if (!deterministic && !plan.timed && !accumulates && worth_it && !stream.capturing())
      time_algorithms(stream, x, plan);
    return plan;
  }

  std::string algorithm_text(const cublasLtMatmulAlgo_t& algorithm) const {
    const auto number = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
      std::int32_t value = -1;
      std::size_t written = 0;
      cublaslt().MatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
      return value;
    };
    return format("algorithm {} tile {} stages {} split {}", number(CUBLASLT_ALGO_CONFIG_ID),
                  number(CUBLASLT_ALGO_CONFIG_TILE_ID), number(CUBLASLT_ALGO_CONFIG_STAGES_ID),
                  number(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  }

  bool deterministic;
  Fp32Products fp32;
  std::vector<Stream*> beside;
  Owned<cublasLtHandle_t> handle;
  DeviceArray<std::byte> workspace;
  std::map<PlanKey, MatmulPlan> plans;
};

Matmuls::Matmuls(Gpu& gpu, bool deterministic, Fp32Products fp32, std::vector<Stream*> beside)
    : state_(std::make_unique<State>(gpu, deterministic, fp32, std::move(beside))) {}
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

std::vector<PlannedMatmul> Matmuls::plans() const {
  std::vector<PlannedMatmul> all;
  for (const auto& [key, plan] : state_->plans)
    all.push_back({key.first, state_->algorithm_text(plan.algorithms.front()), plan.seconds, plan.runner_up});
  return all;
}

}  // namespace vaecf::cuda
