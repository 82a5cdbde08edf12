#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/data/table.hpp>
#include <vaecf/io/source_reader.hpp>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/source/ratings_builder.hpp"
#include "data/source/raw_ratings.hpp"

namespace vaecf::data {

/// Files of one part (train, validation or test) of a source.
struct SourceFiles {
  std::vector<std::string> paths;       ///< in reading order
  io::SourceReader::FileFilter wanted;  ///< selects the members of an archive
  std::string looked_for;               ///< expected file name, for messages: "ratings.csv"
  bool standard_input = false;          ///< read standard input; `paths` is its name for messages

  io::SourceReader reader() const {
    return standard_input ? io::SourceReader::standard_input() : io::SourceReader(paths, wanted);
  }
  /// Returns whether exactly one file must be read, even from an archive.
  bool one_file() const { return paths.size() == 1; }
};

/// Returns whether `source` is standard input.
bool reads_standard_input(const SourceOptions& source);

/// Returns the files of `source`, or of its train part if it is split. Throws InputError if there are none,
/// or if its format is not read from standard input.
SourceFiles source_files(const SourceOptions& source);

/// Returns `source` with the file train.* of its folder as path, for the split `given`, if all files of a
/// folder would be read otherwise. Throws InputError if the folder does not contain exactly one.
SourceOptions with_train_file(SourceOptions source);

/// Returns the files of the validation and test parts of an already split source, as far as they are
/// requested and exist. Empty if all parts are in the same files. Throws InputError if the format does not
/// support such parts, or if the source is standard input.
std::vector<std::pair<SplitPart, SourceFiles>> part_files(const SourceOptions& source,
                                                          const ReadOptions& wanted);

/// Returns the archive that contains a missing file: data/ml-20m.zip for "data/ml-20m/ratings.csv". Returns
/// an empty string if `path` exists or there is no such archive.
std::string archive_for(const std::string& path);

/// Returns whether the archive at `path` contains a file named `member`.
bool archive_holds(const std::string& path, const std::string& member);

/// Returns the files of a table of users or items, in the order in which those of a source are read: all
/// parts in the folder `path`, or the files that match a pattern; none for other paths. `key`: the key of the
/// configuration, for messages. Throws InputError for a folder without files or with folders.
std::vector<std::string> files_of_table(const std::string& path, const std::string& key);

/// Throws InputError for pipes and devices, which can be read only once.
void require_file(const std::string& path);

/// Type of the format readers, which add the events in the files `of` of one part of a source to `to`.
using ReadFiles = void(const SourceOptions& source, const SourceFiles& of, SplitPart part, RatingsBuilder& to,
                       Progress& progress);
ReadFiles read_delimited, read_json_objects, read_netflix, read_adjacency, read_pinterest, read_pro_sg;

/// Location of the validation and test parts of an already split source.
enum class PartFiles { separate, none, same };

/// Table of item titles that some formats store next to the ratings; ids are column 0.
struct TitleTable {
  std::vector<std::string> files{};
  TableLayout layout{};
  std::size_t title = 1;   ///< index of the title column
  bool remainder = false;  ///< the title extends to the end of the line, separators included
  bool above = false;      ///< may also be in the parent folder of the ratings
};

/// Table of users or items that some formats store next to the ratings; ids are column 0.
struct KnownTable {
  std::string file{};
  TableLayout layout{};
  /// Name of a column whose values are the names of the columns from `first_flag` on that are 1, not 0.
  std::string flags{};
  std::size_t first_flag = 0;
  std::string nothing{};  ///< a field that stands for no value, besides an empty one
};

/// Definition of a ratings format. A new format needs an entry in source_formats.cpp, and a reader if no
/// existing one fits.
struct SourceFormat {
  std::string name{};
  std::string description{};         ///< description of the lines, for `prepare --help`
  std::vector<std::string> files{};  ///< file names as published; `*` matches digits
  ReadFiles* read = read_delimited;
  SourceLayout layout{};  ///< for read_delimited; other readers have ratings or times if it names them
  SourceLayout (*given_layout)(const SourceOptions& source) = nullptr;  ///< replaces `layout` if set
  std::vector<std::string> options{};  ///< keys of data.source that only some formats use
  PartFiles parts = PartFiles::separate;
  bool several_files = false;  ///< all files are read as one source
  bool whole_folder = false;   ///< a folder stands for all files in it
  TitleTable titles{};
  KnownTable users{};
  KnownTable items{};

  const KnownTable& known(TableOf of) const { return of == TableOf::users ? users : items; }
};

/// Returns all formats.
const std::vector<SourceFormat>& formats();

/// Returns the format of `source`. Throws InputError if its name is unknown.
const SourceFormat& format_of(const SourceOptions& source);

/// Returns whether the events of `source` have times. Throws InputError as format_of() does.
bool has_times(const SourceOptions& source);

/// Returns whether the keys of data.source name the columns of the format.
bool takes_columns(const SourceOptions& source);

/// Reads all lines of a source, in file order. Ids are integers, or all strings if one of them is not an
/// integer. Malformed lines are dropped and reported in `issues`; in strict mode they throw InputError
/// (`file:line: 'text': problem; advice`). Also throws InputError if the source has no events, or if more
/// lines are dropped than kept, which indicates another format.
RawRatings read_ratings(const SourceOptions& source, const ReadOptions& wanted, Log& log, Progress& progress);

/// Location of the item titles of a source.
struct TitleFile {
  std::string path;    ///< empty: no titles
  std::string member;  ///< file within the zip at `path`; empty: `path` itself
};

/// Returns the title file of MovieLens and Netflix sources, in the folder or zip of the ratings. Tar files
/// are not searched, because that would read them a second time.
TitleFile title_file(const SourceOptions& source);

/// Titles of items, in UTF-8. Text that is not UTF-8 is decoded as Latin-1.
class TitleList {
 public:
  explicit TitleList(const io::IdList& item_ids);
  /// Reads the columns `id` and `title` of the following rows. With `remainder`, a title extends to the end
  /// of the line. The first title of an item counts.
  void read(Table& table, std::size_t id, std::size_t title, bool remainder);
  /// Returns one title per id, empty if there is none, or an empty vector if no item was found.
  std::vector<std::string> take();

 private:
  std::unordered_map<std::string, std::size_t> item_of_;
  std::vector<std::string> titles_;
  bool found_ = false;
};

/// Returns one title per id of `item_ids`, as TitleList: from read_item_titles() if data.source.items has a
/// column of titles, otherwise from title_file(). Returns an empty vector if there is neither.
std::vector<std::string> read_titles(const SourceOptions& source, const io::IdList& item_ids);

/// Returns one title per id of `item_ids`, as TitleList, from the table of items. Throws InputError if the
/// table, or its column of ids or of titles, does not exist.
std::vector<std::string> read_item_titles(const SourceOptions& source, const io::IdList& item_ids);

}  // namespace vaecf::data
