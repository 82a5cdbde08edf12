#include <vaecf/base/error.hpp>

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// Returns a key for natural sorting, in which digit sequences compare as numbers: each is preceded by its
// length.
std::string sort_key(const std::string& name) {
  std::string key;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t end = std::min(name.find_first_not_of("0123456789", i), name.size());
    if (end == i) {
      key += name[i++];
      continue;
    }
    while (i < end && name[i] == '0') ++i;
    key += '0';
    key += static_cast<char>(end - i);
    key += name.substr(i, end - i);
    i = end;
  }
  return key;
}

bool natural_less(const std::string& a, const std::string& b) {
  return std::pair(sort_key(a), a) < std::pair(sort_key(b), b);
}

// Returns the files that match the pattern `path`; none if it is not one.
Names matching_files(const std::string& path) {
  Names paths;
  if (path.find_first_of("*?[{") != std::string::npos) {
    glob_t found{};
    if (::glob(path.c_str(), GLOB_BRACE | GLOB_NOSORT | GLOB_TILDE, nullptr, &found) == 0)
      paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    std::sort(paths.begin(), paths.end(), natural_less);
  }
  return paths;
}

// Expands `path`: an existing file or folder, or the files that match the pattern.
Names matching_paths(const std::string& path) {
  if (path.empty()) throw InputError("data.source.path is empty; set it to the file of ratings");
  if (fs::exists(path)) return {path};
  Names paths = matching_files(path);
  if (paths.empty()) throw InputError(format("{}: no such file; check the paths in data.source", path));
  return paths;
}

// `*` matches one or more digits.
bool matches(const std::string& pattern, const std::string& name) {
  const auto star = pattern.find('*');
  if (star == std::string::npos) return pattern == name;
  const std::string head = pattern.substr(0, star);
  const std::string tail = pattern.substr(star + 1);
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
    return false;
  const std::size_t behind = name.find_first_not_of("0123456789", head.size());
  return behind >= name.size() - tail.size();
}

bool matches_any(const Names& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](auto& pattern) { return matches(pattern, name); });
}

// Returns the plain or compressed files of a folder that match `wanted`. Netflix files are one folder below.
Names files_in(const std::string& folder, const Names& wanted) {
  Names found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    if (matches_any(wanted, io::unpacked_name(entry.path().filename().string())))
      found.push_back(entry.path().string());
  }
  if (found.empty() && fs::is_directory(fs::path(folder) / "training_set"))
    return files_in((fs::path(folder) / "training_set").string(), wanted);
  std::sort(found.begin(), found.end(), natural_less);
  return found;
}

// Returns all files of a folder of parts but hidden ones and those of the programs that write parts
// (_SUCCESS). `key`: the key of the configuration that names the folder.
Names parts_in(const std::string& folder, const std::string& key) {
  Names found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name.starts_with('_')) continue;
    if (entry.is_directory()) {
      throw InputError(format(
          "{}: contains the folder {}; set {} to the folder with the files, or to a pattern such as \"{}/*/*.csv\"",
          folder, name, key, folder));
    }
    require_file(entry.path().string());
    found.push_back(entry.path().string());
  }
  if (found.empty()) throw InputError(format("{}: this folder contains no file; check {}", folder, key));
  std::sort(found.begin(), found.end(), natural_less);
  return found;
}

Names names_of(const SourceOptions& source) {
  return source.file.empty() ? format_of(source).files : Names{source.file};
}

SourceFiles files_at(const SourceOptions& source, const std::string& path, const Names& names) {
  if (const std::string archive = archive_for(path); !archive.empty()) {
    const Names one = fs::path(path).has_filename() ? Names{fs::path(path).filename().string()} : names;
    return files_at(source, archive, one);
  }
  SourceFiles files;
  files.looked_for = names.empty() ? "file of ratings" : excerpt(join(names, " or "));
  files.wanted = [names](const std::string& name) { return names.empty() || matches_any(names, name); };
  for (const std::string& each : matching_paths(path)) {
    if (!fs::is_directory(each)) {
      require_file(each);
      files.paths.push_back(each);
      continue;
    }
    if (names.empty() && format_of(source).whole_folder) {
      const Names parts = parts_in(each, "data.source.path");
      files.paths.insert(files.paths.end(), parts.begin(), parts.end());
      continue;
    }
    if (names.empty()) {
      throw InputError(format(
          "{}: is a folder; set data.source.path to a file, or data.source.file to a name in the folder",
          each));
    }
    Names found = files_in(each, names);
    if (found.empty()) {
      throw InputError(format(
          "{}: this folder contains no {}; set data.source.path to the file, or to the folder that contains it",
          each, excerpt(join(names, " or "))));
    }
    if (!format_of(source).several_files) found.resize(1);
    files.paths.insert(files.paths.end(), found.begin(), found.end());
  }
  return files;
}

/// Returns the test file (test.EXT) or validation file (validation.EXT, valid.EXT or val.EXT) next to
/// train.EXT, plain or compressed, or in its archive.
SourceFiles files_beside(const SourceOptions& source, const fs::path& train, bool test) {
  std::string name = io::unpacked_name(train.filename().string());
  const bool beside = name.starts_with("train.");
  if (!beside && !io::is_archive(train.string())) return {};
  if (!beside) name = source.file.empty() ? "train.txt" : source.file;
  if (!name.starts_with("train.")) return {};
  const std::string ending = name.substr(std::string_view("train").size());
  const Names names =
      test ? Names{"test" + ending} : Names{"validation" + ending, "valid" + ending, "val" + ending};
  if (!beside) return files_at(source, train.string(), names);  // an archive, which may not contain the file
  const Names found = files_in(train.has_parent_path() ? train.parent_path().string() : ".", names);
  if (found.empty()) return {};
  return files_at(source, found.front(), {});
}

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
    const DataIssue* const most = ratings.issues.most_frequent();
    const bool by_time = most != nullptr && most->what.starts_with("the time ");
    throw InputError(format("{}; {} of {} lines cannot be read{}", worst, dropped, ratings.lines,
                            by_time ? "; convert the times, or correct data.source.time_column"
                                    : ", so the format is probably wrong; " + advice));
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

std::vector<std::string> files_of_table(const std::string& path, const std::string& key) {
  if (fs::is_directory(path)) return parts_in(path, key);
  return matching_files(path);
}

std::string archive_for(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  if (fs::exists(path) || folder.empty()) return "";
  for (const char* const ending : {".zip", ".tar.gz", ".tgz", ".tar"})
    if (fs::exists(folder.string() + ending)) return folder.string() + ending;
  return "";
}

bool archive_holds(const std::string& path, const std::string& member) {
  io::SourceReader files({path}, [&](const std::string& name) { return name == member; });
  return files.next() && files.file_name() == member;
}

void require_file(const std::string& path) {
  if (fs::is_regular_file(path)) return;
  throw InputError(format(
      "{}: is a pipe or a device, but a source is read twice, for its lines and its digest; choose a file, or read ratings from standard input (data.source.path: \"-\")",
      path));
}

bool reads_standard_input(const SourceOptions& source) {
  return source.path == "-";
}

SourceFiles source_files(const SourceOptions& source) {
  if (!reads_standard_input(source)) return files_at(source, source.path, names_of(source));
  if (source.format == "delimited") return {{"stdin"}, {}, {}, true};
  throw InputError(format(
      "data.source.path: - is standard input, which only data.source.format: delimited reads, got {}; set data.source.path to a file",
      source.format));
}

SourceOptions with_train_file(SourceOptions source) {
  if (!names_of(source).empty() || !format_of(source).whole_folder || !fs::is_directory(source.path))
    return source;
  Names found;
  for (const std::string& part : parts_in(source.path, "data.source.path"))
    if (io::unpacked_name(fs::path(part).filename().string()).starts_with("train.")) found.push_back(part);
  if (found.size() == 1) {
    source.path = found.front();
    return source;
  }
  throw InputError(format(
      "{}: this folder contains {}, but data.prepare.split: given reads one train file; set data.source.path to it",
      source.path, found.empty() ? "no file train.*" : excerpt(join(found))));
}

std::vector<std::pair<SplitPart, SourceFiles>> part_files(const SourceOptions& source,
                                                          const ReadOptions& wanted) {
  const PartFiles places = format_of(source).parts;
  std::vector<std::pair<SplitPart, SourceFiles>> all;
  if (!wanted.part || places == PartFiles::same) return all;
  if (reads_standard_input(source)) {
    throw InputError(
        "data.source.path: - is standard input, but data.prepare.split: given reads several files; set data.source.path to the train file, or use another split");
  }
  const Names train = source_files(source).paths;
  for (const SplitPart part : {SplitPart::validation, SplitPart::test}) {
    if (!wanted.needs_part(part)) continue;
    const bool test = part == SplitPart::test;
    const std::string& path = test ? source.test_path : source.validation_path;
    SourceFiles files =
        path.empty() ? files_beside(source, train.front(), test) : files_at(source, path, names_of(source));
    if (files.paths.empty()) continue;
    for (const std::string& each : files.paths) {
      const auto same = [&](const std::string& other) { return fs::equivalent(each, other); };
      if (std::none_of(train.begin(), train.end(), same) || io::is_archive(each)) continue;
      const char* const name = test ? "test" : "validation";
      throw InputError(format(
          "{}: is both a train file and the {} file; set data.source.path to the train file, and data.source.{}_path to the other file",
          each, name, name));
    }
    if (places == PartFiles::none) {
      throw InputError(format(
          "data.source.validation_path and data.source.test_path cannot be set for format {}; use another split",
          source.format));
    }
    all.emplace_back(part, std::move(files));
  }
  return all;
}

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
    for (const fs::path& folder : folders)
      if (fs::is_regular_file(folder / name)) return {(folder / name).string(), ""};
    if (ratings.ends_with(".zip") && archive_holds(ratings, name)) return {ratings, name};
  }
  return {};
}

TitleList::TitleList(const io::IdList& item_ids) : titles_(item_ids.size()) {
  for (std::int64_t i = 0; i < item_ids.size(); ++i)
    item_of_.emplace(item_ids.text(i), static_cast<std::size_t>(i));
}

void TitleList::read(Table& table, std::size_t id, std::size_t title, bool remainder) {
  while (table.next()) {
    if (table.problem() != nullptr) continue;
    const auto item = item_of_.find(std::string(table.at(id)));
    if (item == item_of_.end()) continue;
    found_ = true;
    std::string& text = titles_[item->second];
    if (text.empty()) text = as_utf8(remainder ? table.remainder(title) : table.at(title));
  }
}

std::vector<std::string> TitleList::take() {
  return found_ ? std::move(titles_) : std::vector<std::string>();
}

std::vector<std::string> read_titles(const SourceOptions& source, const io::IdList& item_ids) {
  if (!source.items.title_column.empty()) return read_item_titles(source, item_ids);
  const TitleFile file = title_file(source);
  if (file.path.empty()) return {};
  const TitleTable& layout = format_of(source).titles;
  Progress quiet;
  LineReader lines(io::SourceReader({file.path}, [&](auto& member) { return member == file.member; }), quiet);
  if (!lines.next_file()) return {};
  TableLayout of_file = layout.layout;
  of_file.separator = take_separator(lines, layout.layout.separator, "the separator of the titles", {});
  Table table(lines, of_file);
  table.require(layout.title);
  TitleList titles(item_ids);
  titles.read(table, 0, layout.title, layout.remainder);
  return titles.take();
}

}  // namespace vaecf::data
