// cuBLASLt comes in when a GPU is used, not before; needs no GPU.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "backend/cuda/cublaslt.hpp"

namespace vaecf::cuda {
namespace {

bool is_loaded() {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_NE(text.find("libc.so"), std::string::npos);
  return text.find("libcublasLt") != std::string::npos;
}

TEST(CudaLibrary, IsLoadedAtTheFirstCall) {
  EXPECT_FALSE(is_loaded());
  EXPECT_STREQ(cublaslt().GetStatusName(CUBLAS_STATUS_ARCH_MISMATCH), "CUBLAS_STATUS_ARCH_MISMATCH");
  EXPECT_TRUE(is_loaded());
}

TEST(CudaLibrary, OneThatIsMissingIsNamedWithWhatToDo) {
  try {
    load_cublaslt("libno-such-cublas.so", "/no/such/folder/libcublasLt.so");
    FAIL() << "no error";
  } catch (const RunError& error) {
    const std::string text = error.what();
    for (const char* part :
         {"cuBLASLt cannot be loaded: libno-such-cublas.so", "LD_LIBRARY_PATH", "device: cpu"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
    }
  }
}

TEST(CudaLibrary, AnotherOneIsRefused) {
  try {
    load_cublaslt("libc.so.6", "libc.so.6");
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("libc.so.6 is no cuBLASLt that fits"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace vaecf::cuda
