// Which kernels this x86-64 CPU can run, and which are the fastest. machine_other.cpp replaces this file
// elsewhere.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/kernels/tiles.hpp"

namespace vaecf::cpu {

bool cpu_has_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (d & (1U << 22)) != 0 && (d & (1U << 24)) != 0;  // AMX-BF16, AMX-TILE
}

std::shared_ptr<const TileKernels> make_amx_tiles() {
  if (!__builtin_cpu_supports("avx512bf16") || !cpu_has_amx_bf16()) return nullptr;
  // On Linux a process must request permission for the tiles' 8 KiB of state, once for all its threads.
  constexpr long request_permission = 0x1023;
  constexpr long tile_data = 18;
  if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0) return nullptr;
  return std::shared_ptr<const TileKernels>(create_amx_tiles());
}

std::shared_ptr<const TileKernels> make_avx512_tiles() {
  if (!__builtin_cpu_supports("avx512bf16")) return nullptr;
  return std::shared_ptr<const TileKernels>(create_avx512_tiles());
}

std::shared_ptr<const TileKernels> choose_tiles() {
  if (auto amx = make_amx_tiles()) return amx;
  return make_avx512_tiles();
}

PanelKernel make_avx2_panels() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2_panel_kernel() : nullptr;
}

PanelKernel choose_panels() {
  return has_onednn() && __builtin_cpu_supports("avx512f") ? nullptr : make_avx2_panels();
}

}  // namespace vaecf::cpu
