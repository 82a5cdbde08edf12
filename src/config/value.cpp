#include "config/value.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace vaecf::config {
namespace {

const std::string& scalar(const YAML::Node& node) {
  if (!node.IsScalar()) throw WrongType{};
  return node.Scalar();
}

template <class T>
T read_number(const YAML::Node& node) {
  std::string_view text = scalar(node);
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  if (error == std::errc::result_out_of_range && whole) {
    if constexpr (std::is_floating_point_v<T>) {
      throw OutOfRange{format("0, or a number between {:.3g} and {:.3g} in size",
                              std::numeric_limits<T>::min(), std::numeric_limits<T>::max())};
    }
    throw OutOfRange{
        format("between {} and {}", std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max())};
  }
  if (error != std::errc{} || !whole) {
    // A negative number where only positive ones fit is an integer all the same.
    const bool negative =
        std::is_unsigned_v<T> && text.size() > 1 && text[0] == '-' &&
        std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (negative) throw OutOfRange{format("between 0 and {}", std::numeric_limits<T>::max())};
    throw WrongType{};
  }
  return value;
}

bool looks_like_another_type(const std::string& text) {
  static constexpr std::array<std::string_view, 20> words = {
      "",      "~",  "null", "Null", "NULL", "true", "True", "TRUE", "false", "False",
      "FALSE", "on", "On",   "off",  "Off",  "yes",  "Yes",  "no",   "No",    "y"};
  if (std::find(words.begin(), words.end(), text) != words.end()) return true;
  return text.find_first_not_of("0123456789+-.eE_xobaAfFnNiI") == std::string::npos;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

template <class T>
std::string join(const std::vector<T>& values) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i == 0 ? "" : ", ") + write_value(values[i]);
  return out + "]";
}

template <class T>
std::vector<T> read_list(const YAML::Node& node) {
  if (!node.IsSequence()) throw WrongType{};
  std::vector<T> values;
  for (const auto& element : node) read_value(element, values.emplace_back());
  return values;
}

}  // namespace

void read_value(const YAML::Node& node, bool& value) {
  const std::string& text = scalar(node);
  if (text != "true" && text != "false") throw WrongType{};
  value = text == "true";
}

void read_value(const YAML::Node& node, int& value) {
  value = read_number<int>(node);
}
void read_value(const YAML::Node& node, std::int64_t& value) {
  value = read_number<std::int64_t>(node);
}
void read_value(const YAML::Node& node, std::uint32_t& value) {
  value = read_number<std::uint32_t>(node);
}
void read_value(const YAML::Node& node, std::uint64_t& value) {
  value = read_number<std::uint64_t>(node);
}

void read_value(const YAML::Node& node, double& value) {
  const double number = read_number<double>(node);
  if (!std::isfinite(number)) throw WrongType{};
  value = number;
}

void read_value(const YAML::Node& node, std::string& value) {
  const std::string& text = scalar(node);
  // Names of files and folders would end there.
  if (text.find('\0') != std::string::npos) throw OutOfRange{"a text without a zero byte"};
  value = text;
}

void read_value(const YAML::Node& node, std::vector<std::int64_t>& value) {
  value = read_list<std::int64_t>(node);
}
void read_value(const YAML::Node& node, std::vector<std::string>& value) {
  value = read_list<std::string>(node);
}

std::string write_value(bool value) {
  return value ? "true" : "false";
}
std::string write_value(int value) {
  return format("{}", value);
}
std::string write_value(std::int64_t value) {
  return format("{}", value);
}
std::string write_value(std::uint32_t value) {
  return format("{}", value);
}
std::string write_value(std::uint64_t value) {
  return format("{}", value);
}

std::string write_value(double value) {
  std::string text = format("{}", value);
  // YAML 1.1 readers (Python's) take 1e-08 for a text: they want a point before the exponent.
  const auto exponent = text.find('e');
  const bool pointless = text.find('.') == std::string::npos;
  if (pointless) text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  return text;
}

std::string write_value(const std::string& value) {
  const bool plain = std::all_of(value.begin(), value.end(),
                                 [](char c) {
                                   return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
                                          c == '/' || c == '@' || c == '+';
                                 }) &&
                     !value.empty() && value.front() != '-' && value.front() != '@';
  return plain && !looks_like_another_type(value) ? value : quoted(value);
}

std::string write_value(const std::vector<std::int64_t>& value) {
  return join(value);
}
std::string write_value(const std::vector<std::string>& value) {
  return join(value);
}

std::string quote(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return "\"" + excerpt(node.Scalar()) + "\"";
    case YAML::NodeType::Map:
      return "a section of keys";
    case YAML::NodeType::Sequence: {
      std::string out = "[";
      // One level only: through an alias a list may contain itself.
      for (std::size_t i = 0; i < node.size(); ++i) {
        out += (i == 0 ? "" : ", ") + (node[i].IsSequence() ? std::string("a list") : quote(node[i]));
      }
      return excerpt(out + "]");
    }
    default:
      return "nothing";
  }
}

}  // namespace vaecf::config
