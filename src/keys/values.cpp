#include <vaecf/base/text.hpp>
#include <vaecf/keys/values.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

namespace vaecf::keys {
namespace {

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

bool is_scalar(const YAML::Node& node) {
  return node.IsScalar();
}

bool is_word_node(const YAML::Node& node, std::string_view word) {
  return word == "null" ? node.IsNull() : node.IsScalar() && node.Scalar() == word;
}

void read_elements(const YAML::Node& node, const std::function<void(const YAML::Node&)>& read) {
  if (!node.IsSequence()) throw WrongType{};
  for (const auto& element : node) read(element);
}

void read_as_list(const YAML::Node& node, const std::function<void(const YAML::Node&)>& read) {
  if (!node.IsScalar()) return read(node);
  YAML::Node list;
  list.push_back(node);
  read(list);
}

const std::string& scalar(const YAML::Node& node) {
  if (!node.IsScalar()) throw WrongType{};
  return node.Scalar();
}

const std::string& read_text(const YAML::Node& node) {
  const std::string& text = scalar(node);
  if (text.find('\0') != std::string::npos) throw OutOfRange{"a string without a zero byte"};
  return text;
}

std::string read_word(const YAML::Node& node, bool is_switch) {
  if (node.IsNull()) return "null";
  const std::string& text = read_text(node);
  if (!is_switch) return text;
  constexpr std::array on = {"true", "True", "TRUE", "on", "On", "ON", "yes", "Yes", "YES"};
  constexpr std::array off = {"false", "False", "FALSE", "off", "Off", "OFF", "no", "No", "NO"};
  if (std::ranges::find(on, text) != on.end()) return "true";
  return std::ranges::find(off, text) != off.end() ? "false" : text;
}

io::Json schema_of_word(std::string_view word) {
  if (word == "null") return nullptr;
  if (word == "true" || word == "false") return word == "true";
  return word;
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

}  // namespace vaecf::keys
