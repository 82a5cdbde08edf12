// Replaces gemm_onednn.cpp in a program built without oneDNN.

#include "device/cpu/kernels/gemm.hpp"

namespace vaecf::cpu {

Bf16GemmPath bf16_gemm_path() {
  return Bf16GemmPath::fp32_on_rounded;
}

bool has_onednn() {
  return false;
}

std::string onednn_version() {
  return "plain loops (built without oneDNN)";
}

std::unique_ptr<GemmEngine> make_onednn_engine() {
  return make_portable_engine();
}

}  // namespace vaecf::cpu
