#include <vaecf/base/format.hpp>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

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

void read_netflix(const SourceOptions&, const SourceFiles& of, SplitPart, RatingsBuilder& to,
                  Progress& progress) {
  LineReader lines(of.reader(), progress);
  MovieFiles movies(to);
  std::string_view line;
  while (lines.next_file()) {
    movies.start_file(lines.name());
    while (lines.next(line)) {
      to.start_line(lines.number(), line);
      movies.read(line);
    }
  }
  to.ratings().ordered_by_item = true;  // archives and folders have no defined file order
}

}  // namespace vaecf::data
