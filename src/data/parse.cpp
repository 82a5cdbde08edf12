#include "data/parse.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

namespace vaecf::data {
namespace {

void read_part(const SourceOptions& source, const SourceFiles& of, Part part, RatingsBuilder& to,
               Progress& progress) {
  const bool whole = source.format == "netflix" || source.format == "pinterest";
  if (whole && part != Part::train) {
    throw InputError(
        format("data.source.validation_path and test_path cannot be given for the format {}: use "
               "another split",
               source.format));
  }
  io::SourceReader files(of.paths, of.wanted);
  if (source.format == "netflix") {
    read_netflix(files, to, progress);
  } else if (source.format == "adjacency") {
    read_lists(source, of, part, files, to, progress);
  } else if (source.format == "pinterest") {
    read_boards(files, to, progress);
  } else if (source.format == "pro_sg") {
    read_pro_sg(files, to, progress);
  } else {
    read_columns(source, of, part, files, to, progress);
  }
}

std::string passed_over(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "; it holds " : ", ") + excerpt(name);
  return text;
}

void require_any(const RawRatings& ratings, const SourceFiles& of) {
  const std::string advice = "check data.source.format, path, separator, header and columns";
  const std::string worst = ratings.findings.worst();
  if (ratings.events.size() == 0 && worst.empty()) {
    io::SourceReader files(of.paths, of.wanted);
    const std::string& path = of.paths.front();
    if (!files.next()) {
      throw InputError(format("{}: holds no {}{}: check data.source.path and data.source.file", path,
                              of.looked_for, passed_over(files.not_wanted())));
    }
    throw InputError(format("{}: the file holds no ratings: {}", path, advice));
  }
  const std::int64_t dropped = ratings.findings.lines_dropped();
  if (dropped > ratings.events.size()) {
    throw InputError(format("{}; {} of {} lines cannot be read, so this looks like another format: {}", worst,
                            dropped, ratings.lines, advice));
  }
}

}  // namespace

bool wants(const Wanted& wanted, Part part) {
  switch (part) {
    case Part::train:
      return true;
    case Part::validation:
    case Part::validation_fold_in:
      return wanted.validation;
    case Part::test:
    case Part::test_fold_in:
      return wanted.test;
  }
  return true;
}

Wanted wanted_of(const PrepareOptions& options, bool strict) {
  Wanted wanted;
  wanted.min_rating = options.min_rating;
  wanted.part = options.split == SplitMethod::given;
  wanted.validation = options.validation_users > 0;
  wanted.test = options.test_users > 0;
  wanted.time = (options.split == SplitMethod::leave_one_out || options.split == SplitMethod::ratio) &&
                options.pick == Pick::last;
  wanted.strict = strict;
  return wanted;
}

RawRatings read_ratings(const SourceOptions& source, const Wanted& wanted, Log& log, Progress& progress) {
  const SourceFiles train = source_files(source);
  RatingsBuilder to(wanted, log);
  read_part(source, train, Part::train, to, progress);
  if (wanted.part && source.format != "pro_sg") {
    for (const Part part : {Part::validation, Part::test}) {
      if (!wants(wanted, part)) continue;
      const SourceFiles files = part_files(source, part);
      if (!files.paths.empty()) read_part(source, files, part, to, progress);
    }
  }
  RawRatings ratings = to.take();
  require_any(ratings, train);
  ratings.findings.tell(log);
  return ratings;
}

}  // namespace vaecf::data
