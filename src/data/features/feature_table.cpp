#include "data/features/feature_table.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// Returns the file of the folder `path` that has one of the names `members`, else, with `any`, all files.
FeatureTableLocation in_folder(const std::string& path, const Names& members, bool any,
                               const TableWords& words) {
  for (const std::string& name : members) {
    const fs::path table = fs::path(path) / name;
    if (fs::is_regular_file(table)) return {{table.string()}, {name}, false};
  }
  if (any) return {files_of_table(path, format("{}.path", words.section)), {}, false};
  throw InputError(format(
      "{}: this folder contains no {}; set {}.path to the {} table, or {}.file to its name in the folder",
      path, excerpt(members[0]), words.section, words.one, words.section));
}

std::unique_ptr<LineReader> reader_of(const Names& paths, const Names& members, Progress& progress) {
  const auto wanted = [members](const std::string& name) {
    return members.empty() || std::ranges::find(members, name) != members.end();
  };
  return std::make_unique<LineReader>(io::SourceReader(paths, wanted), progress);
}

// Opens the table before its first line. Throws InputError if an archive does not contain it.
std::unique_ptr<LineReader> open_table(const FeatureTableLocation& file, const TableWords& words,
                                       Progress& progress) {
  auto lines = reader_of(file.paths, file.members, progress);
  if (lines->next_file()) return lines;
  Names others = lines->files().skipped_files();
  if (file.any && others.size() == 1) {
    lines = reader_of(file.paths, {}, progress);
    if (lines->next_file()) return lines;
  }
  throw InputError(
      format("{}: contains no {}{}{}; set {}.file to the name of the {} table", file.paths.front(),
             file.any ? format("{} table with a known name", words.one) : excerpt(join(file.members)),
             others.empty() ? "" : "; it contains ", excerpt(join(others)), words.section, words.one));
}

// Returns the description of a table that is known by its name, or nullptr.
const KnownTable* known_table(const FeatureTableOptions& options, const LineReader& lines) {
  const auto is_named = [&](const SourceFormat& each) {
    return each.known(options.of).file == lines.files().file_name();
  };
  const auto format_with_it = std::ranges::find_if(formats(), is_named);
  if (!options.separator.empty() || format_with_it == formats().end()) return nullptr;
  return &format_with_it->known(options.of);
}

// Returns the layout of the table and sets `id_column`.
TableLayout layout_of(const FeatureTableOptions& options, const KnownTable* known, LineReader& lines,
                      std::string& id_column) {
  if (known != nullptr) {
    id_column = "0";
    return known->layout;
  }
  id_column = options.id_column;
  const std::string section = words_of(options.of).section;
  const std::string_view line = lines.peek();
  refuse_json_array(lines, "is read as columns or as lines of objects",
                    format("convert it: jq -c '.[]' '{}' > lines.jsonl", lines.name()));
  if (line.starts_with('{')) return {.json = true, .keys = section};
  std::string separator = options.separator == "\\t" ? "\t" : options.separator;
  separator = take_separator(lines, separator, section + ".separator", {"\t", ",", "::", "|", ";"});
  if (separator.find_first_of("\r\n\"") != std::string::npos) {
    throw InputError(
        format("{}.separator must be one or more characters within a line, such as \",\"", section));
  }
  return {.separator = separator, .header = options.header, .quotes = options.quotes, .keys = section};
}

// Calls use(rows, id, known) at the begin of each file of a table: its rows, the index of the column of ids,
// and the description of a known table, or nullptr. Throws InputError if a column is a key of no JSON object.
template <class Use>
void each_table_file(const FeatureTableOptions& options, const FeatureTableLocation& file, const Use& use) {
  const TableWords& words = words_of(options.of);
  Progress quiet;
  const auto lines = open_table(file, words, quiet);
  const bool several = file.paths.size() > 1;
  std::optional<std::map<std::string, std::string>> missing;  // keys of no object of any file
  do {
    if (several && lines->peek().empty()) continue;
    const KnownTable* const known = known_table(options, *lines);
    std::string id_column;
    const TableLayout layout = layout_of(options, known, *lines, id_column);
    Table rows(*lines, layout);
    const std::size_t id = rows.column(id_column, format("{}.{}_column names", words.section, words.one));
    use(rows, id, known);
    const auto of_file = rows.missing_keys();
    if (!missing) missing = of_file;
    std::erase_if(*missing, [&](const auto& key) { return !of_file.contains(key.first); });
  } while (several && lines->next_file());
  if (!missing || missing->empty()) return;
  throw InputError(format("{}: no JSON object has the key '{}', which {}; check the columns in {}",
                          options.path, excerpt(missing->begin()->first), missing->begin()->second,
                          words.section));
}

// Reads the values of one requested column.
class ColumnReader {
 public:
  // `why`: the origin of the request, for messages. `separator`: that of the values of a field.
  ColumnReader(std::string wanted, std::string why, std::string separator)
      : wanted_(std::move(wanted)), why_(std::move(why)), separator_(std::move(separator)) {}

  // Starts a file. `known`: the description of a known table, or nullptr.
  void start_file(Table& rows, const KnownTable* known) {
    rows_ = &rows;
    known_ = known;
    index_.reset();
    if (known != nullptr && !known->flags.empty() && wanted_ == known->flags) {
      column_.name = wanted_;
      rows.require(known->layout.names.size() - 1);
      return;
    }
    index_ = rows.column(wanted_, why_);
    if (column_.name.empty()) column_.name = rows.name_of(*index_, wanted_);
  }

  // Returns the defect of the current row, or nullptr.
  const char* problem() const {
    if (index_) return nullptr;
    for (std::size_t c = known_->first_flag; c < known_->layout.names.size(); ++c)
      if (rows_->at(c) != "0" && rows_->at(c) != "1") return "a flag is neither 0 nor 1";
    return nullptr;
  }

  // Adds the values of the current row to those of the user or item `of`.
  void take(std::int32_t of) {
    if (!index_) {
      for (std::size_t c = known_->first_flag; c < known_->layout.names.size(); ++c)
        if (rows_->at(c) == "1") add(of, known_->layout.names[c]);
      return;
    }
    for (const std::string& value : rows_->values(*index_, separator_)) add(of, value);
  }

  // Returns the column of a table of `rows` users or items.
  FeatureTableColumn finish(std::size_t rows) {
    column_.values = values_.take();
    std::ranges::stable_sort(found_, {}, [](const auto& each) { return each.first; });
    auto next = found_.begin();
    for (std::size_t row = 0; row < rows; ++row) {
      for (; next != found_.end() && std::cmp_equal(next->first, row); ++next)
        column_.of_row.columns.push_back(next->second);
      column_.of_row.append({});
    }
    return std::move(column_);
  }

 private:
  void add(std::int32_t of, std::string_view value) {
    if (known_ != nullptr && value == known_->nothing) return;
    found_.emplace_back(of, values_.find_or_add(value));
  }

  std::string wanted_;
  std::string why_;
  std::string separator_;
  Table* rows_ = nullptr;
  const KnownTable* known_ = nullptr;
  std::vector<std::pair<std::int32_t, std::int32_t>>
      found_;                         // (user or item, value) in the order of the lines
  std::optional<std::size_t> index_;  // none: the flags of a known table
  TextTable values_;
  FeatureTableColumn column_;
};

}  // namespace

const TableWords& words_of(TableOf of) {
  static constexpr TableWords of_users{"user", "users", "data.source.users", "data.prepare.user_features"};
  static constexpr TableWords of_items{"item", "items", "data.source.items", "data.prepare.item_features"};
  return of == TableOf::users ? of_users : of_items;
}

bool reads_items(const SourceOptions& source, const PrepareOptions& options) {
  return !options.item_features.empty() || !source.items.title_column.empty();
}

FeatureTableLocation feature_table_location(const FeatureTableOptions& options) {
  const TableWords& words = words_of(options.of);
  FeatureTableLocation file{{options.path}, {}, options.file.empty()};
  if (!file.any) file.members.push_back(options.file);
  for (const SourceFormat& each : formats())
    if (file.any && !each.known(options.of).file.empty()) file.members.push_back(each.known(options.of).file);
  if (fs::is_directory(options.path)) return in_folder(options.path, file.members, file.any, words);
  if (fs::exists(options.path)) return file;
  if (std::string archive = archive_for(options.path); !archive.empty())
    return {{std::move(archive)}, {fs::path(options.path).filename().string()}, false};
  file.paths = files_of_table(options.path, format("{}.path", words.section));
  if (!file.paths.empty()) return file;
  throw InputError(format("{}: no such file; check the path of the {} table ({}.path)", options.path,
                          words.one, words.section));
}

FeatureTableLocation feature_table_location_of(const SourceOptions& source,
                                               const FeatureTableOptions& options) {
  if (!options.path.empty()) {
    FeatureTableLocation file = feature_table_location(options);
    std::ranges::for_each(file.paths, require_file);
    return file;
  }
  const std::string& known = format_of(source).known(options.of).file;
  const std::string ratings = source_files(source).paths.front();
  if (!known.empty()) {
    const fs::path beside = fs::path(ratings).parent_path() / known;
    if (fs::is_regular_file(beside)) return {{beside.string()}, {known}, false};
    if (archive_holds(ratings, known)) return {{ratings}, {known}, false};
  }
  const TableWords& words = words_of(options.of);
  throw InputError(format(
      "{} requires a table of {}, but {}.path is not set{}; set it, or remove {}", words.columns, words.many,
      words.section, known.empty() ? "" : format(" and {} contains no {}", ratings, known), words.columns));
}

FeatureTable read_feature_table(const FeatureTableOptions& options, const FeatureTableLocation& file,
                                const Names& wanted, const std::string& why, DataIssues& issues) {
  const TableWords& words = words_of(options.of);
  FeatureTable table;
  table.file = file.paths.size() == 1 ? "" : options.path;
  std::vector<ColumnReader> columns;
  for (const std::string& name : wanted) columns.emplace_back(name, why, options.value_separator);
  each_table_file(options, file, [&](Table& rows, std::size_t id_index, const KnownTable* known) {
    for (ColumnReader& column : columns) column.start_file(rows, known);
    if (table.file.empty()) table.file = rows.name();
    if (table.columns_found.empty()) table.columns_found = rows.columns_found();
    const auto drop = [&](std::string_view what) {
      issues.dropped(format("{} table: {}", words.one, what), [&] {
        const std::string reason = rows.reason().empty() ? "" : format(" ({})", rows.reason());
        return format("{}: '{}'{}", rows.location(), excerpt(rows.line()), reason);
      });
    };
    const auto take = [&] {
      if (const char* const problem = rows.problem()) return drop(problem);
      if (rows.has_several_lines())
        issues.noted(format("{} table: {}", words.one, several_lines), [&] { return rows.location(); });
      const std::string_view id = rows.at(id_index);
      if (rows.is_missing(id_index))
        return drop(format("the {} id is {}, which stands for a missing value", words.one, id));
      if (const char* const problem = id_problem(id)) return drop(format("the {} {}", words.one, problem));
      for (const ColumnReader& column : columns)
        if (const char* const problem = column.problem()) return drop(problem);
      const std::size_t before = table.ids.size();
      const std::int32_t of = table.ids.find_or_add(id);
      if (table.ids.size() == before) ++table.joined_lines;
      for (ColumnReader& column : columns) column.take(of);
    };
    while (rows.next()) take();
  });

  for (ColumnReader& column : columns) table.columns.push_back(column.finish(table.ids.size()));
  const std::int64_t dropped = issues.lines_dropped();
  if (table.ids.size() == 0 && dropped == 0) {
    throw InputError(
        format("{}: the table contains no {}; check {}.path", table.file, words.many, words.section));
  }
  if (dropped > static_cast<std::int64_t>(table.ids.size())) {
    throw InputError(format(
        "{}; {} {} were read, but {} lines cannot be read, so the format is probably wrong; check separator, header and columns in {}",
        issues.most_frequent_example(), table.ids.size(), words.many, dropped, words.section));
  }
  return table;
}

std::vector<std::string> read_item_titles(const SourceOptions& source, const io::IdList& item_ids) {
  TitleList titles(item_ids);
  each_table_file(source.items, feature_table_location_of(source, source.items),
                  [&](Table& rows, std::size_t id, const KnownTable*) {
                    const std::size_t title =
                        rows.column(source.items.title_column, "data.source.items.title_column names");
                    titles.read(rows, id, title, false);
                  });
  return titles.take();
}

}  // namespace vaecf::data
