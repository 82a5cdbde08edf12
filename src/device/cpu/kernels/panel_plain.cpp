#include "device/cpu/kernels/panel_blocks.hpp"
#include "device/cpu/kernels/plain_vectors.hpp"

namespace vaecf::cpu {

PanelKernel plain_panel_kernel() {
  return multiply_panels<PlainVectors>;
}

}  // namespace vaecf::cpu
