#include <vaecf/data/value_text.hpp>

#include <gtest/gtest.h>

#include <sstream>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

// The file is also read by python/tests/test_values.py, which compares its numbers with Python's repr.
TEST(ValueText, IsThatOfTheSharedTable) {
  std::ifstream file(VAECF_VALUE_TEXTS);
  std::string line;
  int lines = 0;
  for (std::getline(file, line); std::getline(file, line); ++lines) {
    const auto field = line.find('\t') + 1;
    const auto text = line.find('\t', field) + 1;
    const std::string expected = line.substr(text);
    EXPECT_EQ(value_text("\t" + line.substr(field, text - 1 - field) + " "), expected) << line;
    EXPECT_EQ(value_text(expected), expected) << "the text of a text";
  }
  EXPECT_GT(lines, 300);
}

TEST(ValuesIn, AreSeparatedAndNotEmpty) {
  EXPECT_EQ(values_in("25.0| -3.0|| 2.50|1.0.0", "|"), (Texts{"25", "-3", "2.5", "1.0.0"}));
  EXPECT_EQ(values_in(" 1e2, a ", ""), Texts{"1e2, a"});
  EXPECT_EQ(values_in(" ", ","), Texts{});
}

}  // namespace
}  // namespace vaecf::data
