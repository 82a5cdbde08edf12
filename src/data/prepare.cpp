#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/output_file.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <future>
#include <limits>
#include <stop_token>

#include "data/parse.hpp"
#include "data/record.hpp"
#include "data/source_files.hpp"
#include "data/split.hpp"
#include "data/titles.hpp"
#include "data/user_features.hpp"

namespace vaecf::data {
namespace {

constexpr double gibibyte = 1073741824.0;

void check_options(const PrepareOptions& options) {
  const auto refuse = [](std::string_view key, auto value, std::string_view allowed) {
    throw InputError(format("data.prepare.{} is {}, but must be {}", key, value, allowed));
  };
  if (std::isnan(options.min_rating)) refuse("min_rating", options.min_rating, "a number");
  if (!(options.held_out_fraction > 0 && options.held_out_fraction < 1)) {
    refuse("held_out_fraction", options.held_out_fraction, "between 0 and 1, such as 0.2");
  }
  const auto at_least_zero = [&](std::string_view key, std::int64_t value) {
    if (value < 0) refuse(key, value, "0 or more");
  };
  at_least_zero("min_user_items", options.min_user_items);
  at_least_zero("min_item_users", options.min_item_users);
  at_least_zero("feature_buckets", options.feature_buckets);
  if (options.feature_hashes < 1 || options.feature_hashes > 16) {
    refuse("feature_hashes", options.feature_hashes, "1 to 16");
  }
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (options.validation_users < 0 || options.validation_users > most) {
    refuse("validation_users", options.validation_users, "between 0 and 2^31 - 1");
  }
  if (options.test_users < 0 || options.test_users > most) {
    refuse("test_users", options.test_users, "between 0 and 2^31 - 1");
  }
  if (!(options.memory_gib >= 0)) refuse("memory_gib", options.memory_gib, "0 or more");
  if (options.pick == Pick::last && options.split != SplitMethod::leave_one_out &&
      options.split != SplitMethod::ratio) {
    throw InputError(
        format("data.prepare.pick: last is for the splits leave_one_out and ratio; {} holds out {}: set "
               "data.prepare.split, or leave pick out",
               to_string(options.split),
               options.split == SplitMethod::given ? "what its files say" : "random items"));
  }
}

io::IdList ids_at(const io::IdList& ids, std::span<const std::int32_t> indices) {
  io::IdList chosen;
  for (const std::int32_t i : indices) {
    const auto index = static_cast<std::size_t>(i);
    if (ids.numeric()) {
      chosen.numbers.push_back(ids.numbers[index]);
    } else {
      chosen.strings.push_back(ids.strings[index]);
    }
  }
  return chosen;
}

void write_users(io::DatasetWriter& writer, const std::string& part, const RawRatings& ratings,
                 const Split& split, std::int64_t begin, std::int64_t count, UserFeatures& features) {
  const io::IdList ids = ids_at(
      ratings.user_ids,
      std::span(split.users).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
  writer.write_ids(part + "/user_id", ids);
  if (features.any()) features.append_rows(writer, part, ids);
}

// Validation or test, whose users begin at position `begin`.
void write_part(io::DatasetWriter& writer, const std::string& name, const RawRatings& ratings,
                const Split& split, std::int64_t begin, std::int64_t rows, UserFeatures& features) {
  if (split.weak && rows > 0) {  // the same users, and what the model sees of them is what it learned from
    writer.link(name + "/fold_in", "train");
    writer.link(name + "/user_id", "train/user_id");
    if (features.any()) writer.link(name + "/features", "train/features");
    return;
  }
  write_users(writer, name, ratings, split, begin, rows, features);
}

// All but the rows.
void write_ids(io::DatasetWriter& writer, const RawRatings& ratings, const Split& split,
               UserFeatures& features) {
  write_users(writer, "train", ratings, split, 0, split.train_rows, features);
  writer.write_ids("items/id", ids_at(ratings.item_ids, split.items));
  write_part(writer, "validation", ratings, split, split.train_rows, split.validation_rows, features);
  write_part(writer, "test", ratings, split, split.train_rows + split.validation_rows, split.test_rows,
             features);
}

/// Nobody waits for sums of gigabytes where preparing has failed.
struct StopAtEnd {
  std::stop_source& what;
  ~StopAtEnd() { what.request_stop(); }
};

}  // namespace

PrepareReport prepare(const SourceOptions& source, const PrepareOptions& options, const std::string& name,
                      const std::string& output, const PrepareMode& mode, Log& log, Progress& progress) {
  check_options(options);
  for (const char* const part : {"validation", "test"}) {
    const std::string& path = part == std::string_view("test") ? source.test_path : source.validation_path;
    if (path.empty() || options.split == SplitMethod::given) continue;
    throw InputError(format(
        "data.source.{}_path is {}, but data.prepare.split is {}, which makes its parts itself: say split: "
        "given, or leave the path out",
        part, path, to_string(options.split)));
  }
  const io::Attributes made_by = recipe(source, options);
  Wanted wanted = wanted_of(options, mode.strict);
  std::vector<std::string> paths = source_files(source).paths;
  const auto add_path = [&](const std::string& path) {
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  };
  for (const auto& [part, files] : part_files(source, wanted)) std::ranges::for_each(files.paths, add_path);
  if (const TitleFile titles = title_file(source); titles.member.empty() && !titles.path.empty()) {
    paths.push_back(titles.path);
  }
  UsersFile users;
  if (!options.features.empty()) {
    users = users_file_of(source);
    add_path(users.path);
  }
  io::check_output(output, "data.file", paths);
  // Before the long work, so that what may not be replaced is refused at once.
  const bool intact = io::check_replaceable(output, mode.replace);
  PrepareReport report;
  if (intact && !mode.force && !mode.strict)
    report.stored_table = stored_table(output, made_by, paths, options.compression);
  report.was_there = !report.stored_table.empty();
  if (report.was_there) return report;

  const std::filesystem::path place(io::behind_links(output));
  io::remove_stale_temporaries(place.has_parent_path() ? place.parent_path().string() : ".",
                               place.filename().string());
  // Before the long work: a folder that cannot be written shows now.
  io::DatasetWriter writer(output, options.compression);
  std::stop_source unwanted;
  auto description = std::async(
      std::launch::async, [&paths, stop = unwanted.get_token()] { return describe_sources(paths, stop); });
  const StopAtEnd stop_at_end{unwanted};
  UserFeatures features;
  if (!options.features.empty()) features = UserFeatures(source, options, users, mode.strict);
  wanted.spill_beside = place.string();
  if (options.memory_gib > 0) wanted.memory = options.memory_gib * gibibyte;
  RawRatings ratings = read_ratings(source, wanted, log, progress);
  SplitWriter rows(writer);
  Filter filter(ratings, options, report, progress);
  const Split split = make_split(ratings, filter, options, rows, progress);
  report.findings = ratings.findings.list();
  rows.report(report, options.split == SplitMethod::given, log);

  for (const auto& [key, value] : made_by) writer.set_attribute(key, value);
  writer.set_attribute("name", name);
  writer.set_attribute("users", static_cast<std::int64_t>(split.users.size()));
  writer.set_attribute("items", static_cast<std::int64_t>(split.items.size()));
  writer.set_attribute("interactions", rows.interactions());
  writer.set_attribute("lines_read", report.lines_read);
  writer.set_attribute("duplicates_dropped", report.duplicates_dropped);
  write_ids(writer, ratings, split, features);
  if (features.any()) features.finish(writer, report, log);
  writer.set_attribute("report", to_table(report));
  if (auto titles = read_titles(source, ids_at(ratings.item_ids, split.items)); !titles.empty()) {
    writer.write_ids("items/title", {{}, std::move(titles)});
  }
  writer.set_attribute("source", description.get());
  writer.commit();
  return report;
}

}  // namespace vaecf::data
