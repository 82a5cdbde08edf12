#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/io/source_reader.hpp>

#include <string>
#include <utility>
#include <vector>

#include "data/ratings_builder.hpp"

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

/// The paths that `path` stands for: a file or folder itself, or what matches the pattern, with numbers in
/// names in order of size. InputError where there is nothing.
std::vector<std::string> matching_paths(const std::string& path);

/// "data/ml-20m/ratings.csv" that is not there, where data/ml-20m.zip is: the archive; otherwise empty.
std::string archive_for(const std::string& path);

/// Whether the archive at `path` holds a file called `member`.
bool archive_holds(const std::string& path, const std::string& member);

/// Throws InputError for a pipe or a device, which can be read only once.
void require_file(const std::string& path);

/// Whether a comes before b when runs of digits count as numbers.
bool natural_less(const std::string& a, const std::string& b);

}  // namespace vaecf::data
