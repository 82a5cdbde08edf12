#include "device/cuda/tune.hpp"

#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>

namespace vaecf::cuda {
namespace {

TEST(Tune, SwitchesAreParsed) {
  const Tune defaults = parse_tune("");
  EXPECT_EQ(defaults.groups, 4);
  EXPECT_EQ(parse_tune("groups=1").groups, 1);
}

TEST(Tune, InvalidSwitchThrows) {
  for (const char* text : {"group=1", "groups", "groups=", "groups=-1", "groups=1x", "groups=1,,groups=2"})
    EXPECT_THROW(parse_tune(text), InputError) << text;
}

}  // namespace
}  // namespace vaecf::cuda
