#pragma once

/// Marks a function that nvcc compiles for the host and for the device. A header of its own, as it is the
/// only one outside device/cuda that may name CUDA.
#ifdef __CUDACC__
#define VAECF_HD __host__ __device__
#else
#define VAECF_HD
#endif
