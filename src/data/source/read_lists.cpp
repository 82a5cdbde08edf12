// Formats with one list of items per user.

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/source_reader.hpp>

#include <algorithm>
#include <charconv>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

void split_words(std::string_view line, std::vector<std::string_view>& words) {
  words.clear();
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty()) return;
    words.push_back(line.substr(0, line.find_first_of(" \t")));
    line.remove_prefix(words.back().size());
  }
}

}  // namespace

void read_adjacency(const SourceOptions& source, const SourceFiles& of, SplitPart part, RatingsBuilder& to,
                    Progress& progress) {
  const bool counted = source.list_starts_with == ListStart::count;
  LineReader lines(of.reader(), progress, of.one_file());
  std::string_view line;
  std::string first_file;
  std::string number;
  std::vector<std::string_view> words;
  while (lines.next_file()) {
    if (counted && !first_file.empty()) {
      throw InputError(format(
          "{} and {}: users without ids are numbered by line, from 0 in each file, so only one file can be read; set data.source.path to one file",
          first_file, lines.name()));
    }
    first_file = lines.name();
    to.start_file(lines.name(), part);
    while (lines.next(line)) {
      to.start_line(lines.number(), line);
      split_words(line, words);
      std::string_view user = words.empty() ? std::string_view() : words.front();
      if (counted) {
        std::size_t count = words.size();
        std::from_chars(user.data(), user.data() + user.size(), count);
        if (count != words.size() - 1) {
          to.drop("the count at its start differs from the number of items after it");
          continue;
        }
        number = std::to_string(lines.number() - 1);
        user = number;
      }
      for (std::size_t i = 1; i < words.size(); ++i)
        to.add(user, words[i], RatingsBuilder::no_rating, 0.0, true);
    }
  }
}

// Boards are the users, pins the items. Documents are counted as lines.
void read_pinterest(const SourceOptions&, const SourceFiles& of, SplitPart, RatingsBuilder& to,
                    Progress& progress) {
  io::SourceReader files = of.reader();
  progress.begin("reading", files.total_bytes(), "bytes");
  while (files.next()) {
    to.start_file(files.name(), SplitPart::train);
    io::BsonReader boards(files.name(), [&](std::span<char> bytes) { return files.read(bytes); });
    std::string board;
    for (std::int64_t number = 1; boards.next(); ++number) {
      board.clear();
      const bool named = boards.id("board_id", board) || boards.id("_id", board);
      to.start_line(number, board);
      if (!named) {
        to.drop("the board has no board_id");
        continue;
      }
      const std::int64_t others = boards.for_each_id(
          "pins", [&](std::string_view pin) { to.add(board, pin, RatingsBuilder::no_rating, 0.0, true); });
      if (others < 0) to.drop("the board has no list of pins");
      for (std::int64_t i = 0; i < others; ++i) to.drop("a pin is neither a string nor an integer");
      progress.update(files.bytes_read());
    }
  }
  progress.end();
}

}  // namespace vaecf::data
