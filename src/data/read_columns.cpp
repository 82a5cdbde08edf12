#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <vaecf/data/source_layout.hpp>
#include "data/fields.hpp"
#include "data/line_reader.hpp"
#include "data/parse.hpp"

namespace vaecf::data {
namespace {

// One line that is no header.
void read_line(const SourceLayout& layout, const ColumnIndices& columns, FieldSplitter& splitter,
               std::string_view line, RatingsBuilder& to, std::string& name) {
  if (!splitter.split(line, columns.needed)) return to.drop("a quote is not closed");
  const auto& fields = splitter.fields();
  if (fields.size() < columns.needed) return to.drop("too few columns");
  if (layout.exactly > 0 && splitter.more()) return to.drop("too many columns");
  const auto field = [&](int index) { return fields[static_cast<std::size_t>(index)]; };
  bool liked = true;
  if (columns.rating >= 0 && !to.read_rating(field(columns.rating), liked)) return;
  double time = 0;
  if (columns.time >= 0 && !to.read_time(field(columns.time), time)) return;
  std::string_view item = field(columns.item);
  if (item.empty() && columns.name >= 0 && !field(columns.name).empty()) {
    name = "name:";
    name += field(columns.name);
    item = name;
  }
  to.add(field(columns.user), item, liked, time);
}

}  // namespace

void read_columns(const SourceOptions& source, const SourceFiles& of, Part part, io::SourceReader& files,
                  RatingsBuilder& to, Progress& progress) {
  const SourceLayout layout = source_layout(source);
  FieldSplitter splitter(layout.separator, layout.quotes);
  LineReader lines(files, progress);
  std::string first_of_archive;
  std::string name;
  std::int64_t headers = 0;
  while (lines.next_file()) {
    if (of.paths.size() == 1 && !first_of_archive.empty())
      refuse_second_file(of, first_of_archive, files.name());
    first_of_archive = files.name();
    to.start_file(files.name(), part);
    std::string_view line;
    if (layout.header && !lines.next(line)) {
      throw InputError(format("{}: the file is empty: give one with a header and ratings", files.name()));
    }
    headers += layout.header ? 1 : 0;
    const ColumnIndices columns = column_indices(layout, files.name(), line, to.wanted().time);
    while (lines.next(line)) {
      to.start_line(lines.number(), line);
      read_line(layout, columns, splitter, line, to, name);
    }
  }
  to.ratings().lines += lines.lines() - headers;
}

}  // namespace vaecf::data
