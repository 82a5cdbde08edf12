// nvcc compiles what it shall launch: the same tests, held against the GPU.
#include "cuda_platform_matmul_test.cpp"
#include "cuda_platform_test.cpp"
