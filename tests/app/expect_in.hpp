#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vaecf::app {

/// Expects to find each of `parts` in `text`.
inline void expect_in(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

}  // namespace vaecf::app
