#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/data/source_layout.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "data/ratings_builder.hpp"
#include "data/source_files.hpp"

namespace vaecf::data {

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

}  // namespace vaecf::data
