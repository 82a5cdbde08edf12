#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// The first fields of a line, without blanks around them.
class FieldSplitter {
 public:
  /// `quotes`: a field may stand in double quotes, two of them for one within, and then hold separators.
  FieldSplitter(std::string separator, bool quotes) : separator_(std::move(separator)), quotes_(quotes) {}

  /// Fills fields() with the first `most` fields of `line`, or with fewer where it has fewer. False where a
  /// quote is not closed.
  bool split(std::string_view line, std::size_t most);
  const std::vector<std::string_view>& fields() const { return fields_; }
  /// Whether the line went on behind the last field.
  bool more() const { return more_; }

 private:
  bool quoted_field(std::string_view& line, std::string_view& field);

  std::string separator_;
  bool quotes_;
  bool more_ = false;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;  // fields that do not stand in the line as they are meant
};

}  // namespace vaecf::data
