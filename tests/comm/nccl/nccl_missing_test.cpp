// Tests the stub of builds without CUDA.
#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>

#include <gtest/gtest.h>

#include <string>

namespace vaecf::comm {
namespace {

TEST(NcclMissing, MessageNamesTheBuildOption) {
  const auto control = make_self_communicator();
  try {
    make_nccl_communicator(*control, {}, {});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("-DVAECF_CUDA=ON"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace vaecf::comm
