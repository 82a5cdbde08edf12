// Formats with a list of items for each user, or of ratings for each movie.
#include <vaecf/base/error.hpp>

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

class MovieFiles {
 public:
  explicit MovieFiles(RatingsBuilder& to) : to_(&to) {}

  void start_file(const std::string& name) {
    to_->start_file(name, SplitPart::train);
    movie_.clear();
    named_.clear();
    named_by_line_ = false;
    first_ = true;
  }

  void read(std::string_view line) {
    if (line.ends_with(':')) {
      line.remove_suffix(1);
      start_movie(line);
      return;
    }
    splitter_.split(line, max_columns + 1);
    const auto& fields = splitter_.fields();
    // One variant has no lines `N:`, but an additional first column with the movie.
    if (first_ && (fields.size() == max_columns || fields.size() == max_columns - 1)) {
      named_by_line_ = fields.size() == max_columns;
      first_ = false;
    }
    const std::size_t shift = named_by_line_ ? 1 : 0;
    if (fields.size() != 3 + shift)
      return to_->drop(fields.size() < 3 + shift ? "too few columns" : "too many columns");
    if (named_by_line_) {
      if (fields[0] != named_ && !start_movie(fields[0])) return;
    } else if (movie_.empty()) {
      return to_->drop("no line 'N:' with the movie precedes it");
    }
    double rating = 0;
    double time = 0;
    if (!to_->read_rating(fields[1 + shift], rating)) return;
    if (to_->wanted().time && !to_->read_time(fields[2 + shift], time)) return;
    to_->add(fields[shift], movie_, rating, time);
  }

 private:
  static constexpr std::size_t max_columns = 4;

  bool start_movie(std::string_view name) {
    first_ = false;
    movie_.clear();
    named_.clear();
    std::int64_t movie = 0;
    if (!parse_number(name, movie)) {
      to_->drop("the movie is not an integer");
      return false;
    }
    named_ = name;
    movie_ = std::to_string(movie);  // one copy of the dataset has "003:" for movie 3
    return true;
  }

  RatingsBuilder* to_;
  FieldSplitter splitter_{",", false};
  std::string movie_;  // canonical id of the movie; empty if unknown
  std::string named_;  // id as in the source
  bool named_by_line_ = false;
  bool first_ = true;
};

}  // namespace

void read_adjacency(const SourceOptions& source, const SourceFiles& of, SplitPart part, RatingsBuilder& to,
                    Progress& progress) {
  const bool counted = source.list_starts_with == ListStart::count;
  LineReader lines(of.reader(), progress, of.one_file());
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
    for (std::string_view line; lines.next(line);) {
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

void read_netflix(const SourceOptions&, const SourceFiles& of, SplitPart, RatingsBuilder& to,
                  Progress& progress) {
  LineReader lines(of.reader(), progress);
  MovieFiles movies(to);
  while (lines.next_file()) {
    movies.start_file(lines.name());
    for (std::string_view line; lines.next(line);) {
      to.start_line(lines.number(), line);
      movies.read(line);
    }
  }
  to.ratings().ordered_by_item = true;  // archives and folders have no defined file order
}

}  // namespace vaecf::data
