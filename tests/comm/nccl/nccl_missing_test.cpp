// Tests the stub of builds without CUDA.
#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>

#include <gtest/gtest.h>

#include "support/messages.hpp"

namespace vaecf::comm {
namespace {

TEST(NcclMissing, MessageNamesTheBuildOption) {
  const auto control = make_self_communicator();
  expect_in(message_of<InputError>([&] { make_nccl_communicator(*control, {}, {}); }), {"-DVAECF_CUDA=ON"});
}

}  // namespace
}  // namespace vaecf::comm
