#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/io/source_reader.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "data/line_reader.hpp"

namespace vaecf::data {

/// Where the table of users lies on disk.
struct UsersFile {
  std::string path;
  std::vector<std::string>
      members;       ///< names, one of which a folder or an archive at `path` holds; empty: any
  bool any = false;  ///< whether any file will do where none of these is there
};

/// The table that `options` name. InputError where nothing is there.
UsersFile users_file(const UsersTableOptions& options);

/// The table of `source`: the one that it names, or the one that its format has beside the ratings, or in the
/// same archive. InputError where there is none.
UsersFile users_file_of(const SourceOptions& source);

/// Reads the bytes of the table.
io::SourceReader reader_of(const UsersFile& file);

/// Moves both on to the first line of the table. InputError where an archive does not hold it.
void start_users_file(const UsersFile& file, io::SourceReader& files, LineReader& lines);

/// How the lines of a table are to be read.
struct UsersLayout {
  std::string separator;
  bool header = false;
  bool quotes = false;
  std::string user = "0";
  std::vector<std::string> names;  ///< of the columns, where they are known without a header
};

/// `name` is that of the file without folders, `first_line` its first.
UsersLayout users_layout(const UsersTableOptions& options, const std::string& name,
                         std::string_view first_line);

}  // namespace vaecf::data
