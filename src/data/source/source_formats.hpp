#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/run_control.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/data/table.hpp>
#include <vaecf/io/source_reader.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/source/ratings_builder.hpp"

namespace vaecf::data {

/// Files on disk that are read for one part of a source.
struct SourceFiles {
  std::vector<std::string> paths;   ///< in the order in which they are read
  io::SourceReader::Wanted wanted;  ///< which files of an archive
  std::string looked_for;           ///< for messages, "ratings.csv"

  io::SourceReader reader() const { return {paths, wanted}; }
  /// Whether one file is meant, even of an archive.
  bool one_file() const { return paths.size() == 1; }
};

/// The files of `source` as a whole, or of its train part. InputError where there are none.
SourceFiles source_files(const SourceOptions& source);

/// Those of the other parts of a source that is split already, as far as they are asked for and there. Empty
/// where the format has all parts in the same files. InputError where it can have none.
std::vector<std::pair<Part, SourceFiles>> part_files(const SourceOptions& source, const Wanted& wanted);

/// "data/ml-20m/ratings.csv" that is not there, where data/ml-20m.zip is: the archive; otherwise empty.
std::string archive_for(const std::string& path);

/// Whether the archive at `path` holds a file called `member`.
bool archive_holds(const std::string& path, const std::string& member);

/// Throws InputError for a pipe or a device, which can be read only once.
void require_file(const std::string& path);

/// A reader of one kind of file: adds the events of the files of one part of a source.
using ReadFiles = void(const SourceOptions& source, const SourceFiles& of, Part part, RatingsBuilder& to,
                       Progress& progress);
ReadFiles read_columns, read_netflix, read_lists, read_boards, read_pro_sg;

/// Where a source that is split already has its validation and test parts.
enum class PartFiles { separate, none, same };

/// The titles that some formats have beside their ratings; ids are column 0.
struct TitleTable {
  std::vector<std::string> files{};
  TableLayout layout{};
  std::size_t title = 1;   ///< column
  bool remainder = false;  ///< the title goes on to the end of the line, separators included
  bool above = false;      ///< may also be in the folder above the ratings
};

/// The table of users that some formats have beside their ratings; ids are column 0.
struct KnownUsersTable {
  std::string file{};
  TableLayout layout{};
};

/// All that the program knows of a format of ratings. Another format is another entry of source_formats.cpp,
/// and a reader if no other one can read it.
struct SourceFormat {
  std::string name{};
  std::string description{};         ///< of its lines, for `prepare --help`
  std::vector<std::string> files{};  ///< what they are called where they were published; `*` is digits
  ReadFiles* read = read_columns;
  SourceLayout layout{};                                                ///< for read_columns
  SourceLayout (*given_layout)(const SourceOptions& source) = nullptr;  ///< instead, if options give it
  std::vector<std::string> options{};  ///< keys of data.source that only some formats use
  PartFiles parts = PartFiles::separate;
  bool several_files = false;  ///< they are read as one
  TitleTable titles{};
  KnownUsersTable users{};
};

const std::vector<SourceFormat>& formats();

/// Throws InputError for a name that is not known.
const SourceFormat& format_of(const SourceOptions& source);

/// Reads all lines of a source, in file order. Ids are integers, or strings where one of them is none. Lines
/// that cannot be read are dropped and told in `findings`, with `strict` an InputError (`file:line: 'text':
/// problem; what to do`). InputError for a source without events, and where more lines are dropped than read:
/// then it is of another format.
RawRatings read_ratings(const SourceOptions& source, const Wanted& wanted, Log& log, Progress& progress);

/// Where a source keeps the titles of its items.
struct TitleFile {
  std::string path;    ///< empty where there is none
  std::string member;  ///< of the zip at `path`; empty: the file itself
};

/// The titles that MovieLens and Netflix have beside their ratings, in the same folder or zip. Tars are not
/// read a second time for them.
TitleFile title_file(const SourceOptions& source);

/// One title for each of `item_ids`, empty where it has none, in UTF-8: what is none is taken for Latin-1. No
/// titles at all where not one is found.
std::vector<std::string> read_titles(const SourceOptions& source, const io::IdList& item_ids);

}  // namespace vaecf::data
