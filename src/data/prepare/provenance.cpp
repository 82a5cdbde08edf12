#include "data/prepare/provenance.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/hash.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "data/features/feature_table.hpp"
#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

// Incremented when the same source and options give a different dataset than before.
constexpr std::int64_t recipe_version = 5;

// Returns whether only some recipes have the attribute `key`; its absence then matters as much as its value.
bool is_optional(std::string_view key) {
  return key.starts_with("source_") || key.starts_with("users_") || key.starts_with("items_") ||
         key == "user_features_of" || key == "item_features_of" || key == "new_item_fraction" ||
         key == "given_parts" || key == "time_quantiles" || key == "dates" || key == "validation_fraction" ||
         key == "test_fraction" || key == "interaction_weights" || key == "min_rating" ||
         key == "validation_users" || key == "test_users";
}

// Returns the member of an archive that `path` denotes if `path` is missing but its folder exists as an
// archive; otherwise an empty string. Name and digest of the archive do not determine which member was read.
std::string member_of_archive(const std::string& path) {
  return archive_for(path).empty() ? "" : std::filesystem::path(path).filename().string();
}

io::Attribute value_of(const std::string& option, const SourceOptions& source) {
  const std::map<std::string_view, io::Attribute> values{
      {"separator", source.separator},         {"header", std::int64_t{source.header}},
      {"quotes", std::int64_t{source.quotes}}, {"user_column", source.user_column},
      {"item_column", source.item_column},     {"rating_column", source.rating_column},
      {"time_column", source.time_column},     {"list_starts_with", to_string(source.list_starts_with)},
  };
  return values.at(option);
}

// Returns the XXH3-128 of a file and adds its size to `bytes`.
std::string digest_of(const std::string& path, const std::stop_token& stop, std::int64_t& bytes) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  io::Xxh3 hash;
  while (file && !stop.stop_requested()) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.update(std::as_bytes(std::span(piece).first(file.gcount())));
    bytes += file.gcount();
  }
  if (!file.eof() && !stop.stop_requested())
    throw InputError(format("{}: cannot be read ({}); check data.source.path", path, std::strerror(errno)));
  return hash.hash128();
}

/// Describes in the attributes with the prefix `prefix` how a feature table is read, for features or titles.
void add_table(io::Attributes& attributes, const std::string& prefix, const FeatureTableOptions& table,
               bool has_features) {
  const std::string member = member_of_archive(table.path);
  attributes[prefix + "file"] = table.file;
  if (!member.empty()) attributes[prefix + "member"] = member;
  attributes[prefix + "separator"] = table.separator;
  attributes[prefix + "header"] = std::int64_t{table.header};
  attributes[prefix + "quotes"] = std::int64_t{table.quotes};
  attributes[format("{}{}_column", prefix, words_of(table.of).one)] = table.id_column;
  if (has_features) attributes[prefix + "value_separator"] = table.value_separator;
}

}  // namespace

io::Attributes provenance_attributes(const SourceOptions& source, const PrepareOptions& options) {
  io::Attributes attributes{
      {"recipe_version", recipe_version},
      {"source_format", source.format},
      {"min_user_items", options.min_user_items},
      {"min_item_users", options.min_item_users},
      {"held_out_fraction", options.held_out_fraction},
      {"split", to_string(options.split)},
      {"held_out", to_string(options.held_out)},
      {"duplicates", to_string(options.duplicates)},
      {"repeat_filters", std::int64_t{options.repeat_filters}},
      {"seed", static_cast<std::int64_t>(options.seed)},
  };
  if (options.min_rating != PrepareOptions::no_minimum) attributes["min_rating"] = options.min_rating;
  if (options.validation_users != PrepareOptions::automatic)
    attributes["validation_users"] = options.validation_users;
  if (options.test_users != PrepareOptions::automatic) attributes["test_users"] = options.test_users;
  if (!source.file.empty()) attributes["source_file"] = source.file;
  const auto set_if_present = [&](const char* key, const std::string& value) {
    if (!value.empty()) attributes[key] = value;
  };
  const std::string member = member_of_archive(source.path);
  const SourceFormat& format_used = format_of(source);
  // A member with the only possible name of the format is not recorded.
  if (format_used.files != std::vector{member}) set_if_present("source_member", member);
  set_if_present("source_validation", std::filesystem::path(source.validation_path).filename().string());
  set_if_present("source_test", std::filesystem::path(source.test_path).filename().string());
  for (const std::string& option : format_used.options)
    attributes["source_" + option] = value_of(option, source);
  // Earlier versions read only the first of several files of lists.
  const auto files = static_cast<std::int64_t>(source_files(source).paths.size());
  if (format_used.read == read_adjacency && files > 1) attributes["source_lists"] = files;
  // Earlier versions also read parts that were not requested.
  if (options.split == SplitMethod::given && (options.validation_users == 0 || options.test_users == 0)) {
    attributes["given_parts"] = format("train{}{}", options.validation_users != 0 ? " validation" : "",
                                       options.test_users != 0 ? " test" : "");
  }
  if (options.split == SplitMethod::stable) {
    attributes["validation_fraction"] = options.validation_fraction;
    attributes["test_fraction"] = options.test_fraction;
  }
  if (options.split == SplitMethod::time && options.dates.empty())
    attributes["time_quantiles"] = options.time_quantiles;
  if (options.split == SplitMethod::time && !options.dates.empty())
    attributes["dates"] = join(options.dates, " to ");
  if (!options.features.empty() || !options.item_features.empty()) {
    attributes["feature_hashes"] = options.feature_hashes;
    attributes["feature_buckets"] = options.feature_buckets;
  }
  if (!options.features.empty()) {
    attributes["user_features_of"] = join(options.features, "\n");
    add_table(attributes, "users_", source.users, true);
  }
  if (!options.item_features.empty()) attributes["item_features_of"] = join(options.item_features, "\n");
  set_if_present("items_title_column", source.items.title_column);
  if (reads_items(source, options))
    add_table(attributes, "items_", source.items, !options.item_features.empty());
  if (options.new_items > 0) attributes["new_item_fraction"] = options.new_items;
  if (options.weights != WeightRule::none) attributes["interaction_weights"] = to_string(options.weights);
  return attributes;
}

bool made_by(const io::Attributes& found, const io::Attributes& provenance) {
  const auto same = [&](const auto& attribute) {
    const auto at = found.find(attribute.first);
    return at != found.end() && at->second == attribute.second;
  };
  const auto also_asked_for = [&](const auto& attribute) {
    return !is_optional(attribute.first) || provenance.contains(attribute.first);
  };
  return std::ranges::all_of(provenance, same) && std::ranges::all_of(found, also_asked_for);
}

std::string describe_sources(const std::vector<std::string>& paths, const std::stop_token& stop) {
  constexpr std::size_t max_named = 8;
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  std::string text;
  std::string sums;
  std::int64_t all_bytes = 0;
  for (const std::string& path : paths) {
    std::int64_t bytes = 0;
    const std::string digest = digest_of(path, stop, bytes);
    text += format("{}{} ({} bytes, xxh128 {})", text.empty() ? "" : ", ", name(path), bytes, digest);
    sums += format("{}  {}\n", digest, name(path));
    all_bytes += bytes;
  }
  if (paths.size() <= max_named) return text;
  io::Xxh3 hash;
  hash.update(std::as_bytes(std::span(sums)));
  return format("{} to {} ({} files, {} bytes, xxh128 of their xxh128sum lines {})", name(paths.front()),
                name(paths.back()), paths.size(), all_bytes, hash.hash128());
}

std::string stored_report(const std::string& path, const io::Attributes& provenance,
                          const std::vector<std::string>& source_paths, std::int64_t compression) {
  const io::DatasetFile file(path);
  const io::Attributes& found = file.attributes();
  if (file.compression() != compression || !made_by(found, provenance)) return "";
  const auto table = found.find("report");
  if (table == found.end() || !std::holds_alternative<std::string>(table->second)) return "";
  if (found.at("source") != io::Attribute(describe_sources(source_paths))) return "";
  return std::get<std::string>(table->second);
}

}  // namespace vaecf::data
