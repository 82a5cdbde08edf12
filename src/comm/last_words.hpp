#pragma once

#include <string>

namespace vaecf::comm {

/// Writes "PROGRAM: text" as one line to standard error, past the locks of stdio, which a thread that hangs
/// may hold. Gives up after a second in which nothing could be written.
void last_words(const std::string& text) noexcept;

/// The local time `seconds` ago: "2031-07-09 18:05:59".
std::string clock_text(double seconds);

}  // namespace vaecf::comm
