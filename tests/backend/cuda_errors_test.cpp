// What errors of the CUDA runtime say; needs no GPU.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

#include "backend/cuda/check.cuh"

namespace vaecf::cuda {
namespace {

void expect_says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

TEST(CudaErrors, SuccessIsSilent) {
  EXPECT_NO_THROW(check(cudaSuccess, "a copy"));
}

TEST(CudaErrors, TellWhatFailedAndCudasOwnName) {
  try {
    check(cudaErrorInvalidValue, "a copy to the GPU");
    FAIL() << "no error";
  } catch (const RunError& error) {
    expect_says(error.what(), {"a copy to the GPU failed", "cudaErrorInvalidValue", "invalid argument"});
  }
}

TEST(CudaErrors, ALostGpuAndAFaultOfAKernelComeFromEarlierWork) {
  for (const cudaError_t error :
       {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorExternalDevice, cudaErrorUnknown,
        cudaErrorIllegalAddress, cudaErrorMisalignedAddress, cudaErrorLaunchFailure,
        cudaErrorIllegalInstruction, cudaErrorAssert}) {
    expect_says(explain(error, "waiting for the GPU"), {"failed at or before waiting for the GPU", "`dmesg`",
                                                        "Xid", "checkpoint", "compute-sanitizer"});
  }
}

TEST(CudaErrors, FrequentOnesSayWhatToDo) {
  expect_says(explain(cudaErrorInsufficientDriver, "taking the GPU"),
              {"driver knows CUDA up to", "this program needs", "update the driver"});
  expect_says(explain(cudaErrorNoKernelImageForDevice, "a kernel's start"), {"VAECF_CUDA_ARCHITECTURES"});
  expect_says(explain(cudaErrorDevicesUnavailable, "taking the GPU"), {"processes", "compute mode"});
  expect_says(explain(cudaErrorSystemNotReady, "taking the GPU"), {"nvidia-fabricmanager"});
  expect_says(explain(cudaErrorStreamCaptureInvalidated, "recording a step"), {"backend.graph: off"});
  expect_says(explain(cudaErrorMemoryAllocation, "a copy"), {"train.batch_size", "backend.resident"});
  expect_says(explain(cudaErrorLaunchTimeout, "a copy"), {"display"});
}

TEST(CudaErrors, FullMemoryTellsNeedsRestAndRemedies) {
  const std::string text = explain_full_memory("the logits", std::int64_t{1} << 30,
                                               {300 << 20, std::int64_t{80} << 30, std::int64_t{5} << 20});
  EXPECT_EQ(
      text,
      "GPU memory: 1.0 GiB for the logits are needed, 0.3 GiB of 80.0 GiB are free (5.0 MiB are this run's "
      "own; for other programs see nvidia-smi); lower train.batch_size, or set backend.resident: off, or "
      "spread the run over more GPUs");
}

}  // namespace
}  // namespace vaecf::cuda
