#include "data/fields.hpp"

namespace vaecf::data {

// `line` starts with a quote; afterwards with a separator, or it is empty.
bool FieldSplitter::quoted_field(std::string_view& line, std::string_view& field) {
  std::size_t end = 1;
  bool doubled = false;
  while (true) {
    end = line.find('"', end);
    if (end == std::string_view::npos) return false;
    if (end + 1 >= line.size() || line[end + 1] != '"') break;
    doubled = true;
    end += 2;
  }
  field = line.substr(1, end - 1);
  line.remove_prefix(end + 1);
  while (!line.empty() && line.front() == ' ' && !line.starts_with(separator_)) line.remove_prefix(1);
  if (!line.empty() && !line.starts_with(separator_)) return false;
  if (!doubled) return true;
  std::string& text = unescaped_.emplace_back();
  for (std::size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  field = text;
  return true;
}

bool FieldSplitter::split(std::string_view line, std::size_t most) {
  const auto starts_quoted = [&](std::string_view text) {
    const bool at_once = text.empty() || text.front() != ' ' || separator_.front() == ' ';
    const std::size_t first = at_once ? 0 : text.find_first_not_of(' ');
    return first < text.size() && text[first] == '"';
  };
  const auto blank = [&](char c) { return c == ' ' || (c == '\t' && separator_ != "\t"); };
  fields_.clear();
  unescaped_.clear();
  more_ = false;
  while (fields_.size() < most) {
    std::string_view field;
    if (quotes_ && starts_quoted(line)) {
      while (line.front() != '"') line.remove_prefix(1);
      if (!quoted_field(line, field)) return false;
      fields_.push_back(field);
      more_ = !line.empty();
      if (!more_) return true;
      line.remove_prefix(separator_.size());
      continue;
    }
    const std::size_t end = separator_.size() == 1 ? line.find(separator_.front()) : line.find(separator_);
    field = line.substr(0, end);
    while (!field.empty() && blank(field.back())) field.remove_suffix(1);
    while (!field.empty() && blank(field.front())) field.remove_prefix(1);
    fields_.push_back(field);
    more_ = end != std::string_view::npos;
    if (!more_) return true;
    line.remove_prefix(end + separator_.size());
  }
  return true;
}

}  // namespace vaecf::data
