#include <vaecf/base/error.hpp>

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <map>
#include <utility>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/tiles.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transposed,
                    memory::data_type type) {
  const memory::dims strides = transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return {{rows, columns}, type, strides};
}

memory::data_type operand_type(const MatmulSpec& s) {
  return s.operands == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::matmul::primitive_desc describe(const MatmulSpec& s, const memory::desc& b,
                                      const dnnl::engine& engine) {
  const auto a = matrix(s.m, s.k, s.lda, s.a_transposed, operand_type(s));
  const auto c = matrix(s.m, s.n, s.ldc, false, memory::data_type::f32);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

// oneDNN 3.7 with AVX-512 returns wrong values for these: an operand of one row that is a column of a wider
// matrix, and a result of one column of a wider matrix. In its descriptors both have a dimension of size 1,
// whose stride means nothing.
bool is_column_of_wider(const MatmulSpec& s) {
  return (s.m == 1 && s.a_transposed && s.lda > 1) || (s.n == 1 && s.ldc > 1);
}

// Makes OpenMP report one thread during its lifetime. oneDNN primitives ask for the number of threads when
// they are created, some also when they run. Here each runs on one thread, but a thread alone in its team
// would get all threads, because OpenMP does not count that as a parallel region.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

class OnednnEngine : public GemmEngine {
 public:
  OnednnEngine() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  void run(const MatmulSpec& spec, const void* a, const void* b, float* c) override {
    if (spec.m == 0 || spec.n == 0) return;
    if (is_column_of_wider(spec)) return loops_->run(spec, a, b, c);
    if (spec.operands == DType::bf16 && rounds_) return run_rounded(spec, a, b, c);
    GemmPlan& plan = plan_for(spec, plain_, [&] {
      return matrix(spec.k, spec.n, spec.ldb, spec.b_transposed, operand_type(spec));
    });
    execute(plan, a, b, c);
  }

  void pack(const MatmulSpec& spec, const float* b, PackedOperand& packed) override {
    if (spec.m == 0 || spec.n == 0) return;
    if (is_column_of_wider(spec)) return loops_->pack(spec, b, packed);
    const memory::desc& layout = packed_plan(spec).b_layout;
    packed.reserve(static_cast<std::int64_t>(layout.get_size() / sizeof(float)));
    memory from(matrix(spec.k, spec.n, spec.ldb, spec.b_transposed, memory::data_type::f32), engine_,
                const_cast<float*>(b));
    memory to(layout, engine_, packed.data());
    OneThread one;
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
  }

  void run_packed(const MatmulSpec& spec, const float* a, const PackedOperand& packed, float* c) override {
    if (spec.m == 0 || spec.n == 0) return;
    if (is_column_of_wider(spec)) return loops_->run_packed(spec, a, packed, c);
    execute(packed_plan(spec), a, packed.data(), c);
  }

 private:
  struct GemmPlan {
    dnnl::matmul primitive;
    memory::desc b_layout;
    memory a, b, c, scratch;
  };
  using Plans = std::map<MatmulSpec, GemmPlan>;

  template <class Layout>
  GemmPlan& plan_for(const MatmulSpec& spec, Plans& plans, Layout b_layout) {
    const auto found = plans.find(spec);
    if (found != plans.end()) return found->second;
    // Local batch sizes vary by a few users between steps; more shapes than this indicate a new run.
    if (plans.size() > 256) plans.clear();
    OneThread one;
    const auto description = describe(spec, b_layout(), engine_);
    GemmPlan plan;
    plan.primitive = dnnl::matmul(description);
    plan.b_layout = description.weights_desc();
    plan.a = memory(description.src_desc(), engine_, DNNL_MEMORY_NONE);
    plan.b = memory(plan.b_layout, engine_, DNNL_MEMORY_NONE);
    plan.c = memory(description.dst_desc(), engine_, DNNL_MEMORY_NONE);
    plan.scratch = memory(description.scratchpad_desc(), engine_);
    return plans.emplace(spec, std::move(plan)).first->second;
  }

  GemmPlan& packed_plan(const MatmulSpec& spec) {
    return plan_for(spec, packed_, [&] {
      return memory::desc({spec.k, spec.n}, operand_type(spec), memory::format_tag::any);
    });
  }

  void execute(GemmPlan& plan, const void* a, const void* b, float* c) {
    plan.a.set_data_handle(const_cast<void*>(a));
    plan.b.set_data_handle(const_cast<void*>(b));
    plan.c.set_data_handle(c);
    const OneThread one;
    plan.primitive.execute(stream_, {{DNNL_ARG_SRC, plan.a},
                                     {DNNL_ARG_WEIGHTS, plan.b},
                                     {DNNL_ARG_DST, plan.c},
                                     {DNNL_ARG_SCRATCHPAD, plan.scratch}});
    stream_.wait();
  }

  void run_rounded(const MatmulSpec& spec, const void* a, const void* b, float* c) {
    MatmulSpec wide = spec;
    wide.lda = to_fp32(a, spec.a_transposed, spec.m, spec.k, spec.lda, a_rounded_);
    wide.ldb = to_fp32(b, spec.b_transposed, spec.k, spec.n, spec.ldb, b_rounded_);
    wide.operands = DType::fp32;
    run(wide, a_rounded_.data(), b_rounded_.data(), c);
  }

  /// Converts bf16 to fp32. Returns the row stride of `to`.
  static std::int64_t to_fp32(const void* from, bool transposed, std::int64_t rows, std::int64_t columns,
                              std::int64_t stride, AlignedArray<float>& to) {
    if (transposed) std::swap(rows, columns);
    to.reserve(rows * columns);
    for (std::int64_t r = 0; r < rows; ++r) {
      vaecf::cpu::to_fp32(static_cast<const std::uint16_t*>(from) + r * stride, to.data() + r * columns,
                          columns);
    }
    return columns;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unique_ptr<GemmEngine> loops_ = make_portable_engine();
  bool rounds_ = bf16_gemm_path() == Bf16GemmPath::fp32_on_rounded;
  Plans plain_;
  Plans packed_;
  AlignedArray<float> a_rounded_;
  AlignedArray<float> b_rounded_;
};

}  // namespace

Bf16GemmPath bf16_gemm_path() {
  // Without these instructions, oneDNN converts within its products, which takes three times as long as fp32
  // products of rounded operands.
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [&](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (!has(dnnl::cpu_isa::avx512_core_bf16)) return Bf16GemmPath::fp32_on_rounded;
  return has(dnnl::cpu_isa::avx512_core_amx) && cpu_has_amx_bf16() ? Bf16GemmPath::amx : Bf16GemmPath::avx512;
}

bool has_onednn() {
  return true;
}

std::string onednn_version() {
  const auto* v = dnnl::version();
  return format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

std::unique_ptr<GemmEngine> make_onednn_engine() {
  return std::make_unique<OnednnEngine>();
}

}  // namespace vaecf::cpu
