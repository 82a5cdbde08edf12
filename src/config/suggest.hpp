#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vaecf::config {

/// Edit distance: insertions, deletions, replacements and swaps of neighbours, each 1.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or an empty text where none is near enough to be a slip of the hand.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace vaecf::config
