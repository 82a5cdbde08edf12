#include "device/cuda_emulator/cuda_platform_kernels.cpp"
