#include "device/cuda/tune.hpp"

#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>

namespace vaecf::cuda {
namespace {

TEST(Tune, SwitchesAreParsed) {
  const Tune defaults = parse_tune("");
  EXPECT_EQ(defaults.ones, 1);
  const Tune tune = parse_tune("ones=0,chunk=640");
  EXPECT_EQ(tune.ones, 0);
  EXPECT_EQ(tune.chunk, 640);
  EXPECT_EQ(tune.slice, defaults.slice);
}

TEST(Tune, InvalidSwitchThrows) {
  for (const char* text : {"one=1", "ones", "ones=", "ones=-1", "ones=1x", "ones=1,,chunk=2"})
    EXPECT_THROW(parse_tune(text), InputError) << text;
}

}  // namespace
}  // namespace vaecf::cuda
