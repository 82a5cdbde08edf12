#include "cuda_platform_kernels.cpp"
