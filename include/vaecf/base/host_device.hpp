#pragma once

/// Marks a function that nvcc compiles for the host and for the device. This is the only header outside
/// device/cuda that may refer to CUDA.
#ifdef __CUDACC__
#define VAECF_HD __host__ __device__
#else
#define VAECF_HD
#endif
