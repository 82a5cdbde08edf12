// Files of ids: --include, --exclude, --users and --at-most.
#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/data/table.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/recommend/item_names.hpp"
#include "app/recommend/recommend_arguments.hpp"

namespace vaecf::app {

/// Ids that were looked up.
struct FoundIds {
  std::vector<std::int64_t> positions;  ///< those of known ids, in the order of the calls of add()
  UnknownNames unknown;

  /// Adds an id with its position, which is negative if it is unknown.
  void add(std::int64_t position, std::string_view id);
};

/// Returns the position of the id in a field of a row, a negative number if it is unknown.
using FindId = std::function<std::int64_t(const data::Table& row, std::size_t column)>;

/// Reads the ids in a file with one in each line. The column is the one that a header names as in `source`,
/// or that has a usual header for `kind`, "item" or "user"; without a header the first. A first line that
/// begins with a known id is no header. Throws InputError if the file cannot be read, a line is too short, or
/// the first line begins with an empty field and is no header.
FoundIds read_ids(const std::string& path, const data::SourceOptions& source, std::string_view kind,
                  const FindId& find);

/// Returns a mask of the items that may be recommended, by --include and --exclude; empty: all. The last
/// `new_items` items are left out unless --include names them. Logs unknown items. Throws InputError if all
/// items of --include are unknown, and as read_ids().
std::vector<std::uint8_t> read_allowed_items(const RecommendArguments& arguments,
                                             const data::SourceOptions& source, const ItemNames& names,
                                             std::int64_t new_items, Log& log);

/// Reads the file of --exclude-pairs, as read_histories(): the items excluded for each of `users`; no rows
/// without the option. Logs unknown items, and if none of the file's users is among them.
Csr read_excluded_pairs(const RecommendArguments& arguments, const data::SourceOptions& source,
                        const ItemNames& names, const io::IdList& users, Log& log);

/// Reads the file of --at-most: an item and its categories, separated by |, in each line. The categories of
/// several lines of an item are joined. The item's column is that of read_ids(), that of the categories the
/// one of --category-column, else the one with the header "category", else the other of two. Returns the
/// categories of each item, numbered from 0; no rows without the option. Logs unknown items. Throws
/// InputError if there is no such column or a line is malformed.
Csr read_item_categories(const RecommendArguments& arguments, const data::SourceOptions& source,
                         const ItemNames& names, Log& log);

}  // namespace vaecf::app
