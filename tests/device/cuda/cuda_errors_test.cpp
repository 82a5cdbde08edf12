// Error messages of CUDA and its libraries, and the time when they are loaded; needs no GPU.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/libraries.cuh"
#include "support/messages.hpp"

namespace vaecf::cuda {
namespace {

void expect_error(const std::function<void()>& work, const std::vector<std::string>& parts) {
  expect_in(message_of<RunError>(work), parts);
}

bool is_loaded(const char* library) {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_NE(text.find("libc.so"), std::string::npos);
  return text.find(library) != std::string::npos;
}

TEST(CudaErrors, MessagesNameTheCallAndTheCudaError) {
  EXPECT_NO_THROW(check(cudaSuccess, "a copy"));
  expect_error([] { check(cudaErrorInvalidValue, "a copy to the GPU"); },
               {"a copy to the GPU failed", "cudaErrorInvalidValue", "invalid argument"});
}

TEST(CudaErrors, MessagesContainAdvice) {
  expect_in(explain(cudaErrorInsufficientDriver, "taking the GPU"),
            {"driver supports CUDA up to", "this program requires CUDA", "update the driver"});
  expect_in(explain(cudaErrorNoKernelImageForDevice, "a kernel's start"), {"VAECF_CUDA_ARCHITECTURES"});
  expect_in(explain(cudaErrorSystemNotReady, "taking the GPU"), {"nvidia-fabricmanager"});
  expect_in(explain(cudaErrorStreamCaptureInvalidated, "recording a step"), {"backend.cuda_graph: false"});
  expect_in(explain(cudaErrorMemoryAllocation, "a copy"), {"train.batch_size", "backend.resident"});
  // Faults of a GPU or a kernel are returned by a later call.
  for (const cudaError_t error : {cudaErrorECCUncorrectable, cudaErrorIllegalAddress}) {
    expect_in(explain(error, "waiting for the GPU"),
              {"earlier work", "`dmesg`", "Xid", "checkpoint", "compute-sanitizer"});
  }
}

TEST(CudaErrors, FullMemoryMessageNamesSizesAndRemedies) {
  EXPECT_EQ(
      explain_full_memory("the logits", std::int64_t{1} << 30, 300 << 20, std::int64_t{80} << 30, 5 << 20),
      "GPU memory: 1.0 GiB for the logits are needed, 0.3 GiB of 80.0 GiB are free (5.0 MiB are used by this run; for other programs see nvidia-smi); lower train.batch_size, set backend.resident: false, or use more GPUs");
}

TEST(CudaLibrary, IsLoadedAtTheFirstCall) {
  EXPECT_FALSE(is_loaded("libcublasLt"));
  EXPECT_STREQ(cublaslt().GetStatusName(CUBLAS_STATUS_ARCH_MISMATCH), "CUBLAS_STATUS_ARCH_MISMATCH");
  EXPECT_TRUE(is_loaded("libcublasLt"));
  EXPECT_FALSE(is_loaded("libcusparse"));
  EXPECT_STREQ(cusparse().GetErrorName(CUSPARSE_STATUS_ALLOC_FAILED), "CUSPARSE_STATUS_ALLOC_FAILED");
  EXPECT_TRUE(is_loaded("libcusparse"));
}

TEST(CudaLibrary, MissingOrIncompatibleLibraryIsNamed) {
  expect_error([] { load_cublaslt("libno-such-cublas.so", "/no/such/folder/libcublasLt.so"); },
               {"cuBLASLt cannot be loaded: libno-such-cublas.so", "LD_LIBRARY_PATH", "device: cpu"});
  expect_error([] { load_cublaslt("libc.so.6", "libc.so.6"); }, {"libc.so.6 is not a compatible cuBLASLt"});
  expect_error([] { load_cusparse("libno-such.so", "/no/such/folder/libcusparse.so"); },
               {"cuSPARSE cannot be loaded: libno-such.so", "LD_LIBRARY_PATH", "device: cpu"});
}

}  // namespace
}  // namespace vaecf::cuda
