#include "data/titles.hpp"

#include <vaecf/base/progress.hpp>
#include <vaecf/base/utf8.hpp>
#include <vaecf/io/source_reader.hpp>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "data/fields.hpp"
#include "data/line_reader.hpp"
#include "data/source_files.hpp"

namespace vaecf::data {
namespace {

namespace fs = std::filesystem;

struct TitleLayout {
  std::vector<std::string> names;
  std::string separator;
  bool quotes = false;
  std::size_t title = 1;    // column; the id is column 0
  bool whole_rest = false;  // separators within titles mean nothing
};

TitleLayout layout_of(const std::string& format) {
  if (format == "movielens_csv") return {{"movies.csv"}, ",", true, 1, false};
  if (format == "movielens_dat") return {{"movies.dat"}, "::", false, 1, false};
  if (format == "movielens_100k") return {{"u.item"}, "|", false, 1, false};
  if (format == "netflix") return {{"movie_titles.csv", "movie_titles.txt"}, ",", false, 2, true};
  return {};
}

std::string as_utf8(std::string_view text) {
  constexpr std::size_t longest = 4096;  // as dataset files have it
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
  return title.size() > longest ? std::string() : title;
}

}  // namespace

TitleFile title_file(const SourceOptions& source) {
  const TitleLayout layout = layout_of(source.format);
  if (layout.names.empty()) return {};
  const std::string ratings = source_files(source).paths.front();
  const fs::path folder = fs::path(ratings).parent_path();
  for (const std::string& name : layout.names) {
    for (const fs::path& place : {folder / name, folder.parent_path() / name}) {
      // Netflix's ratings lie one folder deeper.
      if ((place.parent_path() == folder || source.format == "netflix") && fs::is_regular_file(place)) {
        return {place.string(), ""};
      }
    }
    if (ratings.ends_with(".zip")) {
      io::SourceReader files({ratings}, [&](const std::string& member) { return member == name; });
      if (files.next() && files.file_name() == name) return {ratings, name};
    }
  }
  return {};
}

std::vector<std::string> read_titles(const SourceOptions& source, const io::IdList& item_ids) {
  const TitleFile file = title_file(source);
  if (file.path.empty()) return {};
  const TitleLayout layout = layout_of(source.format);
  std::unordered_map<std::string, std::size_t> item_of;
  for (std::int64_t i = 0; i < item_ids.size(); ++i)
    item_of.emplace(item_ids.text(i), static_cast<std::size_t>(i));

  Progress quiet;
  io::SourceReader files({file.path}, [&](const std::string& member) { return member == file.member; });
  LineReader lines(files, quiet);
  FieldSplitter splitter(layout.separator, layout.quotes);
  std::vector<std::string> titles(static_cast<std::size_t>(item_ids.size()));
  bool found = false;
  std::string_view line;
  if (!lines.next_file()) return {};
  while (lines.next(line)) {
    if (!splitter.split(line, layout.title + 1) || splitter.fields().size() <= layout.title) continue;
    const auto item = item_of.find(std::string(splitter.fields()[0]));
    if (item == item_of.end()) continue;
    std::string_view title = splitter.fields()[layout.title];
    if (layout.whole_rest) title = line.substr(static_cast<std::size_t>(title.data() - line.data()));
    titles[item->second] = as_utf8(title);
    found = true;
  }
  return found ? titles : std::vector<std::string>();
}

}  // namespace vaecf::data
