#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::testing {

// BSON encoder (bsonspec.org): length, elements (type, name, value), zero byte.

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int b = 0; b < bytes; ++b) text += static_cast<char>(value >> (8 * b));
  return text;
}
inline std::string bson_element(char type, const std::string& name, const std::string& value) {
  return type + name + '\0' + value;
}
inline std::string bson_string(const std::string& text) {
  return little_endian(text.size() + 1, 4) + text + '\0';
}
inline std::string bson_document(const std::string& elements) {
  return little_endian(elements.size() + 5, 4) + elements + '\0';
}
inline std::string bson_strings(const std::vector<std::string>& texts) {
  std::string elements;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    elements += bson_element('\x02', std::to_string(i), bson_string(texts[i]));
  }
  return bson_document(elements);
}
/// Returns a document in the format of the Pinterest boards.
inline std::string bson_board(const std::string& id, const std::vector<std::string>& pins) {
  return bson_document(bson_element('\x07', "_id", "123456789012") +
                       bson_element('\x02', "board_id", bson_string(id)) +
                       bson_element('\x04', "pins", bson_strings(pins)));
}

}  // namespace vaecf::testing
