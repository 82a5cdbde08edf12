#include "tile_kernels.hpp"

#include "machine_kernels.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#include <cpuid.h>
#endif

namespace vaecf::cpu {
namespace {

#if defined(__x86_64__) && defined(__linux__)

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf leaf_7(unsigned part) {
  Leaf leaf;
  __get_cpuid_count(7, part, &leaf.a, &leaf.b, &leaf.c, &leaf.d);
  return leaf;
}

bool has(unsigned bits, unsigned wanted) {
  return (bits & wanted) == wanted;
}

// The register states that the operating system saves.
unsigned saved_states() {
  Leaf leaf;
  constexpr unsigned osxsave = 1U << 27;
  if (__get_cpuid(1, &leaf.a, &leaf.b, &leaf.c, &leaf.d) == 0 || !has(leaf.c, osxsave)) return 0;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has_avx512_bf16() {
  constexpr unsigned f_dq_bw_vl = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;
  constexpr unsigned bf16 = 1U << 5;
  constexpr unsigned sse_avx_avx512 = 0xE6;
  return has(leaf_7(0).b, f_dq_bw_vl) && has(leaf_7(1).a, bf16) && has(saved_states(), sse_avx_avx512);
}

bool has_amx_bf16() {
  constexpr unsigned bf16_tile = 1U << 22 | 1U << 24;
  constexpr unsigned tile_states = 1U << 17 | 1U << 18;
  if (!has(leaf_7(0).d, bf16_tile) || !has(saved_states(), tile_states)) return false;
  // Linux gives a process the tiles' 8 KiB of state on request, for all its threads.
  constexpr long request_permission = 0x1023;
  constexpr long tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

#else

bool has_avx512_bf16() {
  return false;
}
bool has_amx_bf16() {
  return false;
}

#endif

}  // namespace

TileKernels::TileKernels() = default;
TileKernels::~TileKernels() = default;
void TileKernels::enter() const {}
void TileKernels::leave() const {}

std::shared_ptr<const TileKernels> make_amx_tiles() {
  if (!has_avx512_bf16() || !has_amx_bf16()) return nullptr;
  return std::shared_ptr<const TileKernels>(new_amx_tiles());
}

std::shared_ptr<const TileKernels> make_avx512_tiles() {
  if (!has_avx512_bf16()) return nullptr;
  return std::shared_ptr<const TileKernels>(new_avx512_tiles());
}

std::shared_ptr<const TileKernels> choose_tiles() {
  if (auto amx = make_amx_tiles()) return amx;
  return make_avx512_tiles();
}

}  // namespace vaecf::cpu
