#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/io/source_reader.hpp>

#include <stop_token>
#include <string>
#include <vector>

#include "data/event_store.hpp"

namespace vaecf::data {

/// Files on disk that are read for one part of a source.
struct SourceFiles {
  std::vector<std::string> paths;   ///< in the order in which they are read
  io::SourceReader::Wanted wanted;  ///< which files of an archive
  std::string looked_for;           ///< for messages, "ratings.csv"
  bool several = false;             ///< whether more than one file of an archive is read
};

/// The files of `source` as a whole, or of its train part. InputError where there are none.
SourceFiles source_files(const SourceOptions& source);

/// Those of the validation or test part of a source that is split already; no paths where there is none.
SourceFiles part_files(const SourceOptions& source, Part part);

/// The paths that `path` stands for: a file or folder itself, or what matches the pattern, with numbers in
/// names in order of size. InputError where there is nothing.
std::vector<std::string> matching_paths(const std::string& path);

/// "data/ml-20m/ratings.csv" that is not there, where data/ml-20m.zip is: the archive; otherwise empty.
std::string archive_for(const std::string& path);

/// Returns whether files of `format` always have this one name.
bool is_only_known_name(const std::string& format, const std::string& name);

/// Whether a comes before b when runs of digits count as numbers.
bool natural_less(const std::string& a, const std::string& b);

/// InputError: `first` and `second` are files of the one archive of `files`, and only one can be meant.
[[noreturn]] void refuse_second_file(const SourceFiles& files, const std::string& first,
                                     const std::string& second);

/// For the record: names, sizes and sha256 of `paths`. Reads all of them, unless `stop` says that nobody
/// wants to know any more.
std::string describe_sources(const std::vector<std::string>& paths, const std::stop_token& stop = {});

}  // namespace vaecf::data
