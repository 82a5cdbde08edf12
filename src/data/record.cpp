#include "data/record.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "data/source_files.hpp"

namespace vaecf::data {
namespace {

// Counts up when the same source and options give another dataset than before.
constexpr std::int64_t recipe_version = 2;

// Options that only some recipes have: without them something else was made than with them.
constexpr std::array<std::string_view, 16> optional_keys{
    "source_member",      "source_validation",  "source_test",
    "users_member",       "source_file",        "source_list_starts_with",
    "source_separator",   "source_header",      "source_quotes",
    "source_user_column", "source_item_column", "source_rating_column",
    "source_time_column", "features_of",        "source_lists",
    "given_parts"};

// The file of an archive that `path` names in place of the folder the archive would be unpacked to: the
// archive's name and sum alone do not tell which was read. Empty where there is no such archive.
std::string member_of_archive(const std::string& path) {
  return archive_for(path).empty() ? "" : std::filesystem::path(path).filename().string();
}

}  // namespace

io::Attributes recipe(const SourceOptions& source, const PrepareOptions& options) {
  io::Attributes attributes{
      {"recipe_version", recipe_version},
      {"source_format", source.format},
      {"min_rating", options.min_rating},
      {"min_user_items", options.min_user_items},
      {"min_item_users", options.min_item_users},
      {"validation_users", options.validation_users},
      {"test_users", options.test_users},
      {"held_out_fraction", options.held_out_fraction},
      {"split", to_string(options.split)},
      {"pick", to_string(options.pick)},
      {"seed", static_cast<std::int64_t>(options.seed)},
  };
  if (!source.file.empty()) attributes["source_file"] = source.file;
  const auto tell = [&](const char* key, const std::string& value) {
    if (!value.empty()) attributes[key] = value;
  };
  const std::string member = member_of_archive(source.path);
  if (!is_only_known_name(source.format, member)) tell("source_member", member);
  // Which file is which part, where that is said.
  tell("source_validation", std::filesystem::path(source.validation_path).filename().string());
  tell("source_test", std::filesystem::path(source.test_path).filename().string());
  if (source.format == "adjacency") {
    attributes["source_list_starts_with"] = to_string(source.list_starts_with);
    // Of several files only the first was read once.
    const auto lists = static_cast<std::int64_t>(source_files(source).paths.size());
    if (lists > 1) attributes["source_lists"] = lists;
  }
  // Parts that nobody had asked for were once taken, too.
  if (options.split == SplitMethod::given && (options.validation_users == 0 || options.test_users == 0)) {
    attributes["given_parts"] = format("train{}{}", options.validation_users > 0 ? " validation" : "",
                                       options.test_users > 0 ? " test" : "");
  }
  if (source.format == "delimited") {
    attributes["source_separator"] = source.separator;
    attributes["source_header"] = std::int64_t{source.header};
    attributes["source_quotes"] = std::int64_t{source.quotes};
    attributes["source_user_column"] = source.user_column;
    attributes["source_item_column"] = source.item_column;
    attributes["source_rating_column"] = source.rating_column;
    attributes["source_time_column"] = source.time_column;
  }
  if (!options.features.empty()) {
    attributes["features_of"] = joined(options.features, "\n");
    attributes["feature_hashes"] = options.feature_hashes;
    attributes["feature_buckets"] = options.feature_buckets;
    attributes["users_file"] = source.users.file;
    tell("users_member", member_of_archive(source.users.path));
    attributes["users_separator"] = source.users.separator;
    attributes["users_header"] = std::int64_t{source.users.header};
    attributes["users_quotes"] = std::int64_t{source.users.quotes};
    attributes["users_user_column"] = source.users.user_column;
  }
  return attributes;
}

bool made_by(const io::Attributes& found, const io::Attributes& recipe) {
  const auto same = [&](const auto& attribute) {
    const auto at = found.find(attribute.first);
    return at != found.end() && at->second == attribute.second;
  };
  const auto also_there = [&](std::string_view key) {
    return found.contains(std::string(key)) == recipe.contains(std::string(key));
  };
  return std::ranges::all_of(recipe, same) && std::ranges::all_of(optional_keys, also_there);
}

std::string stored_table(const std::string& path, const io::Attributes& recipe,
                         const std::vector<std::string>& source_paths, std::int64_t compression) {
  const io::DatasetFile file(path);
  const io::Attributes& found = file.attributes();
  if (file.compression() != compression || !made_by(found, recipe)) return "";
  const auto table = found.find("report");
  if (table == found.end() || !std::holds_alternative<std::string>(table->second)) return "";
  if (found.at("source") != io::Attribute(describe_sources(source_paths))) return "";
  return std::get<std::string>(table->second);
}

}  // namespace vaecf::data
