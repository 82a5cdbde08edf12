#include "data/record.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <filesystem>

#include "data/source_files.hpp"

namespace vaecf::data {
namespace {

// Counts up when the same source and options give another dataset than before.
constexpr std::int64_t recipe_version = 2;

}  // namespace

io::Attributes recipe(const SourceOptions& source, const PrepareOptions& options, const std::string& name) {
  io::Attributes attributes{
      {"recipe_version", recipe_version},
      {"name", name},
      {"source_format", source.format},
      {"min_rating", options.min_rating},
      {"min_user_items", options.min_user_items},
      {"min_item_users", options.min_item_users},
      {"validation_users", options.validation_users},
      {"test_users", options.test_users},
      {"held_out_fraction", options.held_out_fraction},
      {"split", options.split},
      {"pick", options.pick},
      {"seed", static_cast<std::int64_t>(options.seed)},
  };
  if (!source.file.empty()) attributes["source_file"] = source.file;
  if (source.format == "adjacency") attributes["source_list_starts_with"] = source.list_starts_with;
  if (source.format == "delimited") {
    attributes["source_separator"] = source.separator;
    attributes["source_header"] = std::int64_t{source.header};
    attributes["source_quotes"] = std::int64_t{source.quotes};
    attributes["source_user_column"] = source.user_column;
    attributes["source_item_column"] = source.item_column;
    attributes["source_rating_column"] = source.rating_column;
    attributes["source_time_column"] = source.time_column;
  }
  return attributes;
}

std::string stored_table(const std::string& path, const io::Attributes& recipe,
                         const std::vector<std::string>& source_paths) {
  if (!std::filesystem::exists(path)) return "";
  try {
    const io::Attributes found = io::DatasetFile(path).attributes();
    const auto same = [&](const auto& attribute) {
      const auto at = found.find(attribute.first);
      return at != found.end() && at->second == attribute.second;
    };
    if (!std::all_of(recipe.begin(), recipe.end(), same)) return "";
    const auto table = found.find("report");
    if (table == found.end() || !std::holds_alternative<std::string>(table->second)) return "";
    if (!same(std::pair<const std::string, io::Attribute>("source", describe_sources(source_paths))))
      return "";
    return std::get<std::string>(table->second);
  } catch (const InputError&) {
    return "";  // no dataset: it is made again, or refused for a better reason
  }
}

}  // namespace vaecf::data
