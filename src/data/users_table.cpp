#include "data/users_table.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/progress.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <charconv>

#include "data/fields.hpp"
#include "data/line_reader.hpp"
#include "data/ratings_builder.hpp"

namespace vaecf::data {
namespace {

constexpr std::size_t most_table_columns = 10000;

/// Finds columns by name or number.
class Header {
 public:
  Header(const UsersLayout& layout, std::string file, std::string_view first_line)
      : file_(std::move(file)), names_(layout.names) {
    FieldSplitter splitter(layout.separator, layout.quotes);
    splitter.split(first_line, most_table_columns);
    count_ = splitter.fields().size();
    if (layout.header) names_.assign(splitter.fields().begin(), splitter.fields().end());
  }

  std::size_t index_of(const std::string& wanted, const std::string& why) const {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
    const bool number = error == std::errc{} && end == wanted.data() + wanted.size();
    const auto named = std::find(names_.begin(), names_.end(), wanted);
    if (named != names_.end()) {
      if (std::count(named, names_.end(), wanted) > 1) {
        throw InputError(
            format("{}:1: several columns are called '{}', which {}: give the number of one, from 0", file_,
                   excerpt(wanted), why));
      }
      return static_cast<std::size_t>(named - names_.begin());
    }
    if (number && index < count_) return index;
    std::string has;
    for (const std::string& name : names_) has += (has.empty() ? "" : ", ") + excerpt(name);
    if (has.empty()) has = "no header";
    throw InputError(
        format("{}:1: there is no column '{}', which {}; the table has {} columns ({}): correct the "
               "name, or the table's separator and header (data.source.users)",
               file_, excerpt(wanted), why, count_, has));
  }

  /// The name of the column where it has one, otherwise `wanted`.
  std::string name_of(std::size_t index, const std::string& wanted) const {
    return index < names_.size() && !names_[index].empty() ? names_[index] : wanted;
  }

 private:
  std::string file_;
  std::vector<std::string> names_;
  std::size_t count_ = 0;
};

}  // namespace

UsersTable read_users_table(const UsersTableOptions& options, const UsersFile& file,
                            const std::vector<std::string>& wanted, const std::string& why,
                            Findings& findings) {
  io::SourceReader files = reader_of(file);
  Progress quiet;
  LineReader lines(files, quiet);
  start_users_file(file, files, lines);
  UsersTable table;
  table.file = files.name();
  std::string_view line;
  if (!lines.next(line)) throw InputError(format("{}: the table of users is empty", table.file));

  const UsersLayout layout = users_layout(options, files.file_name(), line);
  const Header header(layout, table.file, line);
  const std::size_t user = header.index_of(layout.user, "data.source.users.user_column names");
  std::size_t needed = user + 1;
  std::vector<std::size_t> indices;
  for (const std::string& name : wanted) {
    indices.push_back(header.index_of(name, why));
    table.columns.push_back({header.name_of(indices.back(), name), {}, {}});
    needed = std::max(needed, indices.back() + 1);
  }

  std::vector<TextTable> values(wanted.size());
  FieldSplitter splitter(layout.separator, layout.quotes);
  const auto drop = [&](std::string_view what) {
    findings.dropped(what, [&] { return format("{}:{}: '{}'", table.file, lines.number(), excerpt(line)); });
  };
  const auto take = [&] {
    if (!splitter.split(line, needed)) return drop("table of users: a quote is not closed");
    if (splitter.fields().size() < needed) return drop("table of users: too few columns");
    const std::string_view id = splitter.fields()[user];
    if (id.empty()) return drop("table of users: the user is empty");
    if (id.size() > longest_id) return drop("table of users: the user id is too long");
    const std::size_t before = table.ids.size();
    table.ids.find_or_add(id);
    if (table.ids.size() == before) return drop("table of users: the user was there before");
    for (std::size_t c = 0; c < indices.size(); ++c) {
      const std::string_view value = splitter.fields()[indices[c]];
      table.columns[c].of_user.push_back(value.empty() ? -1 : values[c].find_or_add(value));
    }
  };
  bool more = !layout.header || lines.next(line);
  for (; more; more = lines.next(line)) take();

  for (std::size_t c = 0; c < values.size(); ++c) table.columns[c].values = values[c].take();
  const std::int64_t dropped = findings.lines_dropped();
  if (table.ids.size() == 0 && dropped == 0) {
    throw InputError(format("{}: the table holds no users: check data.source.users.path", table.file));
  }
  if (dropped > static_cast<std::int64_t>(table.ids.size())) {
    throw InputError(
        format("{}; {} users are read and {} lines cannot be, so this looks like another format: "
               "check data.source.users, its separator, header and columns",
               findings.worst(), table.ids.size(), dropped));
  }
  return table;
}

}  // namespace vaecf::data
