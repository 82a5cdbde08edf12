#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <charconv>

#include "data/source_formats.hpp"

namespace vaecf::data {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// The next word of a line; empty at its end.
std::string_view next_word(std::string_view& line) {
  std::size_t begin = 0;
  while (begin < line.size() && is_blank(line[begin])) ++begin;
  std::size_t end = begin;
  while (end < line.size() && !is_blank(line[end])) ++end;
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::int64_t count_words(std::string_view line) {
  std::int64_t count = 0;
  while (!next_word(line).empty()) ++count;
  return count;
}

}  // namespace

void read_lists(const SourceOptions& source, const SourceFiles& of, Part part, RatingsBuilder& to,
                Progress& progress) {
  const bool counted = source.list_starts_with == ListStart::count;
  LineReader lines(of.reader(), progress, of.one_file());
  std::string_view line;
  std::string first_file;
  while (lines.next_file()) {
    if (counted && !first_file.empty()) {
      throw InputError(
          format("{} and {}: users without ids are numbered by their lines, which these two files would both "
                 "begin at 0: let data.source.path name one file",
                 first_file, lines.name()));
    }
    first_file = lines.name();
    to.start_file(lines.name(), part);
    while (lines.next(line)) {
      to.start_line(lines.number(), line);
      std::string_view rest = line;
      const std::string_view first = next_word(rest);
      const std::string user = counted ? std::to_string(lines.number() - 1) : std::string(first);
      if (counted) {
        std::int64_t count = -1;
        std::from_chars(first.data(), first.data() + first.size(), count);
        if (count != count_words(rest)) {
          to.drop("the number at its start is not that of the items behind it");
          continue;
        }
      }
      for (auto item = next_word(rest); !item.empty(); item = next_word(rest)) {
        to.add(user, item, true, 0.0, true);
      }
    }
  }
}

}  // namespace vaecf::data
