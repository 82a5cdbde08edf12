#include <vaecf/config/config.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace vaecf::config {
namespace {

/// Returns the number of insertions, deletions, substitutions and transpositions of adjacent characters that
/// turn `a` into `b` (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      int& least = table[i][j];
      if (i == 0 || j == 0) {
        least = static_cast<int>(i + j);
        continue;
      }
      const int replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      least = std::min({replaced, table[i - 1][j] + 1, table[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        least = std::min(least, table[i - 2][j - 2] + 1);
      }
    }
  }
  return table[a.size()][b.size()];
}

}  // namespace

std::string closest_match(const std::string& word, const std::vector<std::string>& candidates) {
  const int limit = std::max(1, static_cast<int>(word.size()) / 3);
  const auto distance = [&](const std::string& candidate) {
    // A lower bound of the edit distance.
    const int longer = std::abs(static_cast<int>(word.size()) - static_cast<int>(candidate.size()));
    return longer > limit ? longer : edit_distance(word, candidate);
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return best != candidates.end() && distance(*best) <= limit ? *best : "";
}

}  // namespace vaecf::config
