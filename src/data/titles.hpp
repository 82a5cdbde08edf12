#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <string>
#include <vector>

namespace vaecf::data {

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
