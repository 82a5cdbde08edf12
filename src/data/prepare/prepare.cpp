#include <vaecf/base/error.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/hash.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <stop_token>
#include <string_view>
#include <unordered_set>

#include "data/features/feature_rows.hpp"
#include "data/prepare/filter.hpp"
#include "data/prepare/provenance.hpp"
#include "data/prepare/split.hpp"
#include "data/prepare/split_writer.hpp"
#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

// Incremented when the same source and options give a different dataset than before.
constexpr std::int64_t recipe_version = 4;

// Returns whether only some recipes have the attribute `key`; its absence then matters as much as its value.
bool is_optional(std::string_view key) {
  return key.starts_with("source_") || key.starts_with("users_") || key.starts_with("items_") ||
         key == "features_of" || key == "item_features_of" || key == "new_items_fraction" ||
         key == "given_parts" || key == "time_quantiles" || key == "dates" || key == "validation_fraction" ||
         key == "test_fraction" || key == "weights";
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

// Returns whether `path` is a file that is read whole, so that data.source.file and the like have no effect.
bool is_one_file(const std::string& path) {
  return std::filesystem::is_regular_file(path) && !io::is_archive(path);
}

constexpr double gibibyte = 1073741824.0;

void write_users(io::DatasetWriter& writer, const std::string& part, const RawRatings& ratings,
                 std::span<const std::int32_t> users, FeatureRows& features) {
  const io::IdList ids = ratings.user_ids.select(users);
  writer.write_ids(part + "/user_id", ids);
  if (features.any()) features.append_rows(writer, part + "/features", ids);
}

// Writes ids and features of users and items, and the links to them.
void write_users_and_items(io::DatasetWriter& writer, const RawRatings& ratings, const Split& split,
                           FeatureRows& features, FeatureRows& item_features) {
  const auto train = static_cast<std::size_t>(split.train_rows);
  std::span<const std::int32_t> users(split.users);
  write_users(writer, "train", ratings, users.first(train), features);
  const io::IdList items = ratings.item_ids.select(split.items);
  writer.write_ids("items/id", items);
  if (item_features.any()) item_features.append_rows(writer, "items/features", items);
  users = users.subspan(train);
  for (const auto& [part, count] :
       {std::pair("validation", split.validation_rows), std::pair("test", split.test_rows)}) {
    const std::string name = part;
    if (split.weak && count > 0) {  // same users; their fold-in is the train row
      writer.link(name + "/fold_in", "train");
      writer.link(name + "/user_id", "train/user_id");
      if (features.any()) writer.link(name + "/features", "train/features");
      continue;
    }
    write_users(writer, name, ratings, users.first(count), features);
    users = users.subspan(count);
  }
}

/// Throws InputError for options that cannot be combined.
void check_options(const SourceOptions& source, const PrepareOptions& options) {
  const auto require_ratings = [&](const std::string& option, const char* others) {
    if (has_ratings(source)) return;
    throw InputError(format("data.prepare.{} requires ratings, but data.source.format: {} has none{}; use {}",
                            option, source.format,
                            takes_columns(source) ? " without data.source.rating_column" : "", others));
  };
  if (combines_ratings(options.duplicates))
    require_ratings("duplicates: " + to_string(options.duplicates), "first or last");
  if (options.weights != WeightRule::none) require_ratings("weights: " + to_string(options.weights), "none");
  if (options.split == SplitMethod::time && !has_times(source)) {
    throw InputError(format(
        "data.prepare.split: time requires times, but data.source.format: {} has none{}; use another split",
        source.format, takes_columns(source) ? " without data.source.time_column" : ""));
  }
  if (options.split == SplitMethod::stable && options.validation_fraction + options.test_fraction >= 1.0) {
    throw InputError(format(
        "data.prepare: the sum of validation_fraction and test_fraction must be below 1, got {}; decrease one of them",
        options.validation_fraction + options.test_fraction));
  }
  if (options.new_items > 0 && options.item_features.empty()) {
    throw InputError(
        "data.prepare.new_items requires data.prepare.item_features, since new items are known by their features only; set it to columns of the table of items, such as [genres], or remove data.prepare.new_items");
  }
  if (options.new_items > 0 && options.split == SplitMethod::given) {
    throw InputError(
        "data.prepare.new_items removes train events, but data.prepare.split: given keeps the parts of the source; use another split, or remove data.prepare.new_items");
  }
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

/// At the end of the scope, also by an exception, stops the computation of the digests, for which the
/// destructor of its future would wait.
struct StopOnExit {
  std::stop_source& what;
  ~StopOnExit() { what.request_stop(); }
};

}  // namespace

io::Attributes provenance_attributes(const SourceOptions& source, const PrepareOptions& options) {
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
      {"holdout", to_string(options.holdout)},
      {"duplicates", to_string(options.duplicates)},
      {"repeat_filters", std::int64_t{options.repeat_filters}},
      {"seed", static_cast<std::int64_t>(options.seed)},
  };
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
    attributes["given_parts"] = format("train{}{}", options.validation_users > 0 ? " validation" : "",
                                       options.test_users > 0 ? " test" : "");
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
    attributes["features_of"] = join(options.features, "\n");
    add_table(attributes, "users_", source.users, true);
  }
  if (!options.item_features.empty()) attributes["item_features_of"] = join(options.item_features, "\n");
  set_if_present("items_title_column", source.items.title_column);
  if (reads_items(source, options))
    add_table(attributes, "items_", source.items, !options.item_features.empty());
  if (options.new_items > 0) attributes["new_items_fraction"] = options.new_items;
  if (options.weights != WeightRule::none) attributes["weights"] = to_string(options.weights);
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

bool is_used(std::string_view key, const SourceOptions& source, const PrepareOptions& options) {
  using enum SplitMethod;
  const SplitMethod split = options.split;
  const auto option = key.substr(key.rfind('.') + 1);
  for (const FeatureTableOptions& table : {source.users, source.items}) {
    const bool of_users = table.of == TableOf::users;
    if (!key.starts_with(format("{}.", words_of(table.of).section))) continue;
    const bool features = of_users ? !options.features.empty() : !options.item_features.empty();
    if (option == "value_separator") return features;
    return (features || (!of_users && reads_items(source, options))) &&
           (option != "file" || !(table.path.empty() || is_one_file(table.path)));
  }
  if (option == "feature_hashes" || option == "feature_buckets")
    return !options.features.empty() || !options.item_features.empty();
  if (option == "validation_path" || option == "test_path") {
    const std::int64_t users = option == "test_path" ? options.test_users : options.validation_users;
    return split == given && users > 0 && format_of(source).parts == PartFiles::separate;
  }
  if (key == "data.source.file" && (reads_standard_input(source) || is_one_file(source.path))) return false;
  if (key.starts_with("data.source.")) {
    const auto uses = [&](const SourceFormat& format) {
      return std::ranges::find(format.options, option) != format.options.end();
    };
    return std::ranges::none_of(formats(), uses) || uses(format_of(source));
  }
  if (option == "min_rating") return has_ratings(source);
  if (option == "repeat_filters") return split != given && options.min_item_users > 0;
  if (option == "min_user_items" || option == "min_item_users") return split != given;
  if (option == "seed") return format_of(source).parts != PartFiles::same;  // the order of the users
  if (option == "held_out_fraction")
    return split == liang2018 || split == SplitMethod::random || split == stable || split == ratio;
  if (option == "validation_users" || option == "test_users") return split != stable;
  if (option == "validation_fraction" || option == "test_fraction") return split == stable;
  if (option == "holdout") return split == leave_one_out || split == ratio;
  if (option == "time_quantiles" || option == "dates") return split == SplitMethod::time;
  return true;
}

PrepareReport prepare(const SourceOptions& given, const PrepareOptions& options, const std::string& name,
                      const std::string& output, const PrepareFlags& flags, Log& log, Progress& progress) {
  const SourceOptions source = options.split == SplitMethod::given ? with_train_file(given) : given;
  check_options(source, options);
  const io::Attributes made_by = provenance_attributes(source, options);
  ReadOptions read_options = make_read_options(source, options, flags.strict);
  std::vector<std::string> paths;
  if (!reads_standard_input(source)) paths = source_files(source).paths;
  const auto add_path = [&](const std::string& path) {
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
  };
  for (const auto& [part, files] : part_files(source, read_options))
    std::ranges::for_each(files.paths, add_path);
  if (const TitleFile titles = title_file(source); titles.member.empty() && !titles.path.empty())
    paths.push_back(titles.path);
  FeatureTableLocation users;
  FeatureTableLocation items;
  if (!options.features.empty()) users = feature_table_location_of(source, source.users);
  if (reads_items(source, options)) items = feature_table_location_of(source, source.items);
  for (const FeatureTableLocation& table : {users, items}) std::ranges::for_each(table.paths, add_path);
  io::validate_output_path(output, "data.file", paths);
  // Checked first, so that an output that must not be replaced is rejected before the long work.
  const bool intact = io::check_replaceable(output, flags.replace);
  PrepareReport report;
  if (intact && !flags.force && !flags.strict && !reads_standard_input(source))
    report.stored_report = stored_report(output, made_by, paths, options.compression);
  report.up_to_date = !report.stored_report.empty();
  if (report.up_to_date) return report;

  const std::filesystem::path output_path(io::resolve_symlinks(output));
  io::remove_stale_temporaries(output_path.has_parent_path() ? output_path.parent_path().string() : ".",
                               output_path.filename().string());
  // Created first, so that an unwritable folder is reported before the long work.
  io::DatasetWriter writer(output, options.compression);
  std::stop_source stop_digests;
  auto digests = std::async(std::launch::async, [&paths, stop = stop_digests.get_token()] {
    return describe_sources(paths, stop);
  });
  const StopOnExit stop_on_exit{stop_digests};
  if (!source.items.title_column.empty()) (void)read_item_titles(source, {});  // errors before the long work
  FeatureRows features;
  FeatureRows item_features;
  if (!options.features.empty()) features = {source.users, users, options, flags.strict, log};
  if (!options.item_features.empty()) item_features = {source.items, items, options, flags.strict, log};
  read_options.spill_beside = output_path.string();
  if (options.memory_gib > 0) read_options.memory = options.memory_gib * gibibyte;
  RawRatings ratings = read_ratings(source, read_options, log, progress);
  ItemTable item_table{.source_items = ratings.item_ids.size()};
  if (item_features.any()) item_table.known = item_features.complete(ratings.item_ids);
  SplitWriter rows(writer, options.weights != WeightRule::none);
  Filter filter(ratings, options, report, progress);
  const Split split = make_split(ratings, filter, item_table, options, rows, report, progress);
  report.issues = ratings.issues.list();
  rows.report(report, options.split == SplitMethod::given, log);

  for (const auto& [key, value] : made_by) writer.set_attribute(key, value);
  writer.set_attribute("name", name);
  const std::unordered_set<std::int32_t> users_of_parts(split.users.begin(), split.users.end());
  writer.set_attribute("users", static_cast<std::int64_t>(users_of_parts.size()));
  writer.set_attribute("items", static_cast<std::int64_t>(split.items.size()));
  writer.set_attribute("interactions", rows.interactions());
  writer.set_attribute("lines_read", report.lines_read);
  writer.set_attribute("duplicates_dropped", report.duplicates_dropped);
  write_users_and_items(writer, ratings, split, features, item_features);
  if (features.any()) features.finish(writer, report.features, report.issues, log);
  if (item_features.any()) {
    item_features.finish(writer, report.item_features, report.issues, log);
    report.new_items = std::ssize(split.items) - split.train_items;
    writer.set_attribute("new_items", report.new_items);
  }
  writer.set_attribute("report", to_table(report));
  if (auto titles = read_titles(source, ratings.item_ids.select(split.items)); !titles.empty())
    writer.write_ids("items/title", {{}, std::move(titles)});
  const std::string files = digests.get();
  const char* const comma = ratings.standard_input.empty() || files.empty() ? "" : ", ";
  writer.set_attribute("source", format("{}{}{}", ratings.standard_input, comma, files));
  writer.commit();
  return report;
}

std::string to_table(const PrepareReport& report) {
  if (report.up_to_date) return report.stored_report;
  std::size_t width = 4;
  for (const StageCounts& counts : report.stages) width = std::max(width, counts.stage.size());
  std::string table = format("{:<{}}  {:>15}  {:>13}  {:>13}\n", "stage", width, "events", "users", "items");
  for (const StageCounts& counts : report.stages) {
    table += format("{:<{}}  {:>15}  {:>13}  {:>13}\n", counts.stage, width, grouped(counts.events),
                    grouped(counts.users), grouped(counts.items));
  }
  table += format("{} lines read, {} events, {} repeated (user, item)\n", grouped(report.lines_read),
                  grouped(report.events_read), grouped(report.duplicates_dropped));
  table += to_table(report.features) + to_table(report.item_features);
  if (!report.item_features.table.empty())
    table += format("{} new items, without train users\n", grouped(report.new_items));
  for (const DataIssue& issue : report.issues) {
    table += format("{:>15} {}: {}, first at {}\n", grouped(issue.count), issue.dropped ? "dropped" : "kept",
                    issue.what, issue.examples.empty() ? "?" : issue.examples.front());
  }
  return table;
}

}  // namespace vaecf::data
