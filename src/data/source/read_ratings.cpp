#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <filesystem>
#include <unordered_map>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

std::string list_of_skipped(const std::vector<std::string>& names) {
  return names.empty() ? "" : "; it contains " + excerpt(join(names));
}

void require_any(const RawRatings& ratings, const SourceFiles& of) {
  const std::string advice = "check data.source.format, path, separator, header and columns";
  const std::string worst = ratings.issues.most_frequent_example();
  if (ratings.events.size() == 0 && worst.empty()) {
    io::SourceReader files = of.reader();
    const std::string& path = of.paths.front();
    if (!files.next()) {
      for (const std::string& member : files.skipped_files()) refuse_office_file(path + "/" + member, member);
      throw InputError(format("{}: contains no {}{}; check data.source.path and data.source.file", path,
                              of.looked_for, list_of_skipped(files.skipped_files())));
    }
    throw InputError(format("{}: the file contains no ratings; {}", path, advice));
  }
  const std::int64_t dropped = ratings.issues.lines_dropped();
  if (dropped > ratings.events.size()) {
    throw InputError(format("{}; {} of {} lines cannot be read, so the format is probably wrong; {}", worst,
                            dropped, ratings.lines, advice));
  }
}

std::string as_utf8(std::string_view text) {
  constexpr std::size_t max_bytes = 4096;  // limit of dataset files, in bytes
  std::string title;
  if (is_utf8(text)) {
    title = text;
  } else {
    for (const char c : text) {
      const auto code = static_cast<unsigned char>(c);
      if (code < 0x80) {
        title += c;
      } else {
        title += static_cast<char>(0xC0 | (code >> 6));
        title += static_cast<char>(0x80 | (code & 0x3F));
      }
    }
  }
  return title.size() > max_bytes ? std::string() : title;
}

}  // namespace

RawRatings read_ratings(const SourceOptions& source, const ReadOptions& wanted, Log& log,
                        Progress& progress) {
  const SourceFormat& format = format_of(source);
  const SourceFiles train = source_files(source);
  RatingsBuilder to(wanted, log);
  format.read(source, train, SplitPart::train, to, progress);
  for (const auto& [part, files] : part_files(source, wanted)) format.read(source, files, part, to, progress);
  RawRatings ratings = to.take();
  ratings.unrated = !has_ratings(source);
  require_any(ratings, train);
  ratings.issues.log_to(log);
  return ratings;
}

TitleFile title_file(const SourceOptions& source) {
  namespace fs = std::filesystem;
  const TitleTable& table = format_of(source).titles;
  if (table.files.empty()) return {};
  const std::string ratings = source_files(source).paths.front();
  std::vector<fs::path> folders{fs::path(ratings).parent_path()};
  if (table.above) folders.push_back(folders[0].parent_path());
  for (const std::string& name : table.files) {
    for (const fs::path& folder : folders) {
      if (fs::is_regular_file(folder / name)) return {(folder / name).string(), ""};
    }
    if (ratings.ends_with(".zip") && archive_holds(ratings, name)) return {ratings, name};
  }
  return {};
}

std::vector<std::string> read_titles(const SourceOptions& source, const io::IdList& item_ids) {
  const TitleFile file = title_file(source);
  if (file.path.empty()) return {};
  const TitleTable& layout = format_of(source).titles;
  std::unordered_map<std::string, std::size_t> item_of;
  for (std::int64_t i = 0; i < item_ids.size(); ++i)
    item_of.emplace(item_ids.text(i), static_cast<std::size_t>(i));

  Progress quiet;
  LineReader lines(io::SourceReader({file.path}, [&](auto& member) { return member == file.member; }), quiet);
  if (!lines.next_file()) return {};
  TableLayout of_file = layout.layout;
  of_file.separator = take_separator(lines, layout.layout.separator, "the separator of the titles", {});
  Table table(lines, of_file);
  table.require(layout.title);
  std::vector<std::string> titles(item_ids.size());
  bool found = false;
  while (table.next()) {
    if (table.problem() != nullptr) continue;
    const auto item = item_of.find(std::string(table.at(0)));
    if (item == item_of.end()) continue;
    titles[item->second] = as_utf8(layout.remainder ? table.remainder(layout.title) : table.at(layout.title));
    found = true;
  }
  return found ? titles : std::vector<std::string>();
}

}  // namespace vaecf::data
