#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/math/elementwise.hpp>

#include "product.hpp"

#include <omp.h>

#include <cpuid.h>

#include <cstring>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace vaecf::cpu {
namespace {

using dnnl::memory;

struct SpecHash {
  std::size_t operator()(const ProductSpec& s) const {
    std::size_t h = 0;
    for (std::int64_t x : {s.m, s.n, s.k, s.lda, s.ldb, s.ldc})
      h = h * 1000003U + static_cast<std::size_t>(x);
    return h * 16U + (s.a_transposed ? 1U : 0U) + (s.b_transposed ? 2U : 0U) + (s.accumulate ? 4U : 0U) +
           (s.bf16 ? 8U : 0U);
  }
};

memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transposed,
                    memory::data_type type) {
  const memory::dims strides = transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return {{rows, columns}, type, strides};
}

memory::data_type operand_type(const ProductSpec& s) {
  return s.bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::matmul::primitive_desc describe(const ProductSpec& s, const memory::desc& b,
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

// A primitive asks for the number of threads when it is made, and some again when they run; ours run on one
// each. Alone in its team a thread would get all of the machine's otherwise: OpenMP does not call that a
// parallel region.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

class OnednnPacked : public PackedOperand {
 public:
  memory::desc layout;
  memory content;
  std::vector<float> rounded;  // the operand in fp32, where there are no bf16 products
};

class OnednnEngine : public ProductEngine {
 public:
  OnednnEngine() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  void run(const ProductSpec& spec, const void* a, const void* b, float* c) override {
    if (spec.m == 0 || spec.n == 0) return;
    if (spec.bf16 && rounds_) return run_rounded(spec, a, b, c);
    Plan& plan = plan_for(spec, plain_, [&] {
      return matrix(spec.k, spec.n, spec.ldb, spec.b_transposed, operand_type(spec));
    });
    execute(plan, a, const_cast<void*>(b), c);
  }

  std::unique_ptr<PackedOperand> make_packed() override { return std::make_unique<OnednnPacked>(); }

  void pack(const ProductSpec& spec, const void* b, PackedOperand& packed) override {
    if (spec.m == 0 || spec.n == 0) return;
    auto& to = static_cast<OnednnPacked&>(packed);
    ProductSpec s = spec;
    if (spec.bf16 && rounds_) {
      widen(static_cast<const std::uint16_t*>(b), spec.b_transposed ? spec.n : spec.k,
            spec.b_transposed ? spec.k : spec.n, spec.ldb, to.rounded);
      s = rounded_spec(spec);
      b = to.rounded.data();
    }
    Plan& plan = packed_plan(s);
    if (!to.content || to.layout != plan.b_layout) {
      to.layout = plan.b_layout;
      to.content = memory(plan.b_layout, engine_);
    }
    memory from(matrix(s.k, s.n, s.ldb, s.b_transposed, operand_type(s)), engine_, const_cast<void*>(b));
    OneThread one;
    dnnl::reorder(from, to.content).execute(stream_, from, to.content);
    stream_.wait();
  }

  void run_packed(const ProductSpec& spec, const void* a, const PackedOperand& packed, float* c) override {
    if (spec.m == 0 || spec.n == 0) return;
    const auto& b = static_cast<const OnednnPacked&>(packed);
    ProductSpec s = spec;
    if (spec.bf16 && rounds_) {
      widen(static_cast<const std::uint16_t*>(a), spec.a_transposed ? spec.k : spec.m,
            spec.a_transposed ? spec.m : spec.k, spec.lda, a_rounded_);
      s = rounded_spec(spec);
      a = a_rounded_.data();
    }
    execute(packed_plan(s), a, b.content.get_data_handle(), c);
  }

 private:
  struct Plan {
    dnnl::matmul primitive;
    memory::desc b_layout;
    memory a, b, c, scratch;
  };
  using Plans = std::unordered_map<ProductSpec, Plan, SpecHash>;

  template <class Layout>
  Plan& plan_for(const ProductSpec& spec, Plans& plans, Layout b_layout) {
    const auto found = plans.find(spec);
    if (found != plans.end()) return found->second;
    // Local batches differ by a few users from step to step; more shapes than this means a new run.
    if (plans.size() > 256) plans.clear();
    OneThread one;
    const auto description = describe(spec, b_layout(), engine_);
    Plan plan;
    plan.primitive = dnnl::matmul(description);
    plan.b_layout = description.weights_desc();
    plan.a = memory(description.src_desc(), engine_, DNNL_MEMORY_NONE);
    plan.b = memory(plan.b_layout, engine_, DNNL_MEMORY_NONE);
    plan.c = memory(description.dst_desc(), engine_, DNNL_MEMORY_NONE);
    plan.scratch = memory(description.scratchpad_desc(), engine_);
    return plans.emplace(spec, std::move(plan)).first->second;
  }

  Plan& packed_plan(const ProductSpec& spec) {
    return plan_for(spec, packed_, [&] {
      return memory::desc({spec.k, spec.n}, operand_type(spec), memory::format_tag::any);
    });
  }

  void execute(Plan& plan, const void* a, void* b, float* c) {
    plan.a.set_data_handle(const_cast<void*>(a));
    plan.b.set_data_handle(b);
    plan.c.set_data_handle(c);
    const OneThread one;
    plan.primitive.execute(stream_, {{DNNL_ARG_SRC, plan.a},
                                     {DNNL_ARG_WEIGHTS, plan.b},
                                     {DNNL_ARG_DST, plan.c},
                                     {DNNL_ARG_SCRATCHPAD, plan.scratch}});
    stream_.wait();
  }

  static ProductSpec rounded_spec(ProductSpec s) {
    s.lda = s.a_transposed ? s.m : s.k;
    s.ldb = s.b_transposed ? s.k : s.n;
    s.bf16 = false;
    return s;
  }

  static void widen(const std::uint16_t* from, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                    std::vector<float>& to) {
    to.resize(static_cast<std::size_t>(rows * columns));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) to[r * columns + c] = math::from_bf16(from[r * stride + c]);
  }

  void run_rounded(const ProductSpec& spec, const void* a, const void* b, float* c) {
    widen(static_cast<const std::uint16_t*>(a), spec.a_transposed ? spec.k : spec.m,
          spec.a_transposed ? spec.m : spec.k, spec.lda, a_rounded_);
    widen(static_cast<const std::uint16_t*>(b), spec.b_transposed ? spec.n : spec.k,
          spec.b_transposed ? spec.k : spec.n, spec.ldb, b_rounded_);
    run(rounded_spec(spec), a_rounded_.data(), b_rounded_.data(), c);
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  bool rounds_ = bf16_products() == Bf16Products::rounded;
  Plans plain_;
  Plans packed_;
  std::vector<float> a_rounded_;
  std::vector<float> b_rounded_;
};

bool cpu_has_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (d & (1U << 22)) != 0 && (d & (1U << 24)) != 0;  // AMX-BF16, AMX-TILE
}

}  // namespace

Bf16Products bf16_products() {
  // Ask the library rather than the CPU flags: what counts is whether it has a kernel.
  try {
    const ProductSpec probe{.m = 64, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64, .bf16 = true};
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto found = describe(probe, matrix(64, 64, 64, false, memory::data_type::bf16), engine);
    // Reference kernels are many times slower than a fp32 product of the same operands.
    if (std::string(found.impl_info_str()).find("ref") != std::string::npos) return Bf16Products::rounded;
  } catch (const dnnl::error&) {
    return Bf16Products::rounded;
  }
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_amx && cpu_has_amx_bf16() ? Bf16Products::amx
                                                                     : Bf16Products::avx512;
}

std::string onednn_version() {
  const auto* v = dnnl::version();
  return format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

std::unique_ptr<ProductEngine> make_onednn_engine() {
  return std::make_unique<OnednnEngine>();
}

}  // namespace vaecf::cpu
