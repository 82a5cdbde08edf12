#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace vaecf {

/// Skips the test, or fails it if VAECF_REQUIRE_GPU=1, unless `reason`, why there is no GPU, is empty.
inline void require_gpu(const std::string& reason) {
  if (reason.empty()) return;
  const char* required = std::getenv("VAECF_REQUIRE_GPU");
  if (required != nullptr && std::string_view(required) == "1")
    FAIL() << "VAECF_REQUIRE_GPU=1, but " << reason;
  GTEST_SKIP() << reason;
}

}  // namespace vaecf
