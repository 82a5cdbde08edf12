#include <vaecf/base/utf8.hpp>
#include <vaecf/config/config.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "config/keys.hpp"

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

bool looks_like_another_type(const std::string& text) {
  constexpr std::string_view words =
      " ~ null Null NULL true True TRUE false False FALSE on On off Off yes Yes no No y ";
  return text.find_first_not_of("0123456789+-.eE_xobaAfFnNiI") == std::string::npos ||
         words.find(" " + text + " ") != std::string_view::npos;
}

std::string quoted(const std::string& text) {
  constexpr std::string_view special = "\"\\\t\n\r";
  std::string out = "\"";
  for (const char c : text) {
    if (const auto found = special.find(c); found != std::string_view::npos) {
      out += {'\\', "\"\\tnr"[found]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

const std::string& scalar(const YAML::Node& node) {
  if (!node.IsScalar()) throw WrongType{};
  return node.Scalar();
}

const std::string& read_text(const YAML::Node& node) {
  const std::string& text = scalar(node);
  if (text.find('\0') != std::string::npos) throw OutOfRange{"a string without a zero byte"};
  return text;
}

std::string write_text(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@+";
  const bool is_plain = text.find_first_not_of(plain) == std::string::npos && !text.starts_with('-') &&
                        !text.starts_with('@') && !looks_like_another_type(text);
  return is_plain ? text : quoted(text);
}

std::string write_fraction(double value) {
  std::string text = format("{}", value);
  // YAML 1.1 parsers (PyYAML) read 1e-08 as a string: they require a point before the exponent.
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string quote(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return "\"" + excerpt(node.Scalar()) + "\"";
    case YAML::NodeType::Map:
      return "a section of keys";
    case YAML::NodeType::Sequence: {
      std::string out = "[";
      // One level only, because a list may contain itself through an alias.
      for (std::size_t i = 0; i < node.size(); ++i) {
        out += (i == 0 ? "" : ", ") + (node[i].IsSequence() ? std::string("a list") : quote(node[i]));
      }
      return excerpt(out + "]");
    }
    default:
      return "nothing";
  }
}

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
