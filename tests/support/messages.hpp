#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vaecf {

/// Expects `text` to contain each of `parts`.
inline void expect_in(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

/// Returns the message of the E that `action` throws, or "(nothing thrown)".
template <class E, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "(nothing thrown)";
}

/// Expects `action` to throw an E whose message contains each of `parts`.
template <class E, class Action>
void expect_error(const std::vector<std::string>& parts, Action action) {
  expect_in(message_of<E>(action), parts);
}

}  // namespace vaecf
