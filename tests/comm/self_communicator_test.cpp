#include <vaecf/base/error.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/usable_cores.hpp>

#include <gtest/gtest.h>

#include <array>

namespace vaecf::comm {
namespace {

TEST(SelfCommunicator, WorksInAProgramWithoutMpi) {
  const auto self = make_self_communicator();
  EXPECT_EQ(self->size(), 1);
  std::array<float, 3> values = {1, 2, 3};
  self->all_reduce(std::span<float>(values));
  self->wait(self->all_reduce_async(std::span<float>(values), {}));
  EXPECT_EQ(values, (std::array<float, 3>{1, 2, 3}));
  EXPECT_EQ(all_gather_strings(*self, "rank 0"), std::vector<std::string>{"rank 0"});
  EXPECT_TRUE(query_root(*self, [] { return true; }));
  EXPECT_GE(usable_cores(*self), 1);
  EXPECT_THROW(run_on_root(*self, [] { throw InputError("no such file"); }), InputError);
}

}  // namespace
}  // namespace vaecf::comm
