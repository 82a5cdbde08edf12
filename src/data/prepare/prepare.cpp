#include <vaecf/base/error.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/hash.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
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

constexpr double gibibyte = 1073741824.0;

void write_users(io::DatasetWriter& writer, const std::string& part, const RawRatings& ratings,
                 std::span<const std::int32_t> users, FeatureRows& features) {
  const io::IdList ids = ratings.user_ids.select(users);
  writer.write_ids(part + "/user_id", ids);
  if (features.any()) features.append_rows(writer, part + "/user_features", ids);
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
      if (features.any()) writer.link(name + "/user_features", "train/user_features");
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
  if (options.weights != WeightRule::none)
    require_ratings("interaction_weights: " + to_string(options.weights), "null");
  if (options.split == SplitMethod::time && !has_times(source)) {
    throw InputError(format(
        "data.prepare.split: time requires times, but data.source.format: {} has none{}; use another split",
        source.format, takes_columns(source) ? " without data.source.time_column" : ""));
  }
  for (const auto& [part, users] :
       {std::pair("validation", options.validation_users), std::pair("test", options.test_users)}) {
    if (options.split != SplitMethod::stable || users == PrepareOptions::automatic) continue;
    throw InputError(format(
        "data.prepare.{}_users is {}, but data.prepare.split: stable holds out a fraction of the users; remove it, and set data.prepare.{}_fraction",
        part, users, part));
  }
  if (options.split == SplitMethod::stable && options.validation_fraction + options.test_fraction >= 1.0) {
    throw InputError(format(
        "data.prepare: the sum of validation_fraction and test_fraction must be below 1, got {}; decrease one of them",
        options.validation_fraction + options.test_fraction));
  }
  if (options.new_items > 0 && options.item_features.empty()) {
    throw InputError(
        "data.prepare.new_item_fraction requires data.prepare.item_features, since new items are known by their features only; set it to columns of the table of items, such as [genres], or remove data.prepare.new_item_fraction");
  }
  if (options.new_items > 0 && options.split == SplitMethod::given) {
    throw InputError(
        "data.prepare.new_item_fraction removes train events, but data.prepare.split: given keeps the parts of the source; use another split, or remove data.prepare.new_item_fraction");
  }
}

/// Returns the part of the ratings below the middle of their scale; nothing if there are too many values for
/// a scale, or one.
std::optional<PrepareReport::LowRatings> low_ratings_of(const std::map<double, std::int64_t>& counts) {
  constexpr std::size_t max_values = 100;
  if (counts.size() < 2 || counts.size() > max_values) return std::nullopt;
  PrepareReport::LowRatings low{.lowest = counts.begin()->first, .highest = counts.rbegin()->first};
  double all = 0.0;
  double below = 0.0;
  for (const auto& [rating, count] : counts) {
    all += static_cast<double>(count);
    if (rating < 0.5 * (low.lowest + low.highest)) below += static_cast<double>(count);
  }
  low.fraction = below / all;
  return low;
}

/// At the end of the scope, also by an exception, stops the computation of the digests, for which the
/// destructor of its future would wait.
struct StopOnExit {
  std::stop_source& what;
  ~StopOnExit() { what.request_stop(); }
};

}  // namespace

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
  report.low_ratings = low_ratings_of(ratings.rating_counts);
  report.issues = ratings.issues.list();
  rows.report(report, options.split == SplitMethod::given, log);

  for (const auto& [key, value] : made_by) writer.set_attribute(key, value);
  writer.set_attribute("name", name);
  const std::unordered_set<std::int32_t> users_of_parts(split.users.begin(), split.users.end());
  writer.set_attribute("raw_users", report.stages.front().users);
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

}  // namespace vaecf::data
