#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/data/table.hpp>

#include <string>

namespace vaecf::data {

/// A source format in terms of columns, which are indices from 0 or names.
struct SourceLayout {
  TableLayout table{};
  std::string user = "0";
  std::string item = "1";
  std::string rating = "2";  ///< empty: every line is an interaction
  std::string time{};        ///< empty: lines are in order of time
  std::string name{};        ///< stands for the item where that is empty
};

/// Returns the layout of the format of `source`. For formats without columns, or if none is named, the
/// separator is empty, and users and items are columns 0 and 1. Throws InputError for a separator or columns
/// that cannot be.
SourceLayout source_layout(const SourceOptions& source);

}  // namespace vaecf::data
