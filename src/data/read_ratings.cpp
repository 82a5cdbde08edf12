#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include "data/source_formats.hpp"

namespace vaecf::data {
namespace {

std::string passed_over(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "; it holds " : ", ") + excerpt(name);
  return text;
}

void require_any(const RawRatings& ratings, const SourceFiles& of) {
  const std::string advice = "check data.source.format, path, separator, header and columns";
  const std::string worst = ratings.findings.worst();
  if (ratings.events.size() == 0 && worst.empty()) {
    io::SourceReader files = of.reader();
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

RawRatings read_ratings(const SourceOptions& source, const Wanted& wanted, Log& log, Progress& progress) {
  const SourceFormat& format = format_of(source);
  const SourceFiles train = source_files(source);
  RatingsBuilder to(wanted, log);
  format.read(source, train, Part::train, to, progress);
  for (const auto& [part, files] : part_files(source, wanted)) format.read(source, files, part, to, progress);
  RawRatings ratings = to.take();
  require_any(ratings, train);
  ratings.findings.tell(log);
  return ratings;
}

}  // namespace vaecf::data
