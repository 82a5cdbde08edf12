#include "device/cuda/tune.hpp"

#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>

namespace vaecf::cuda {
namespace {

TEST(Tune, SwitchesAreParsed) {
  const Tune defaults = parse_tune("");
  EXPECT_EQ(defaults.groups, 4);
  const Tune tune = parse_tune("groups=1,side=1");
  EXPECT_EQ(tune.groups, 1);
  EXPECT_EQ(tune.side, 1);
  EXPECT_EQ(tune.fuse, defaults.fuse);
}

TEST(Tune, InvalidSwitchThrows) {
  for (const char* text : {"sid=1", "side", "side=", "side=-1", "side=1x", "side=1,,fuse=1"})
    EXPECT_THROW(parse_tune(text), InputError) << text;
}

}  // namespace
}  // namespace vaecf::cuda
