#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/prepare.hpp>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>

#include "data/filter.hpp"
#include "data/parse.hpp"
#include "data/record.hpp"
#include "data/source_files.hpp"
#include "data/split.hpp"
#include "data/titles.hpp"
#include "data/user_features.hpp"

namespace vaecf::data {
namespace {

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
  const std::vector<std::string> splits = split_names();
  if (std::find(splits.begin(), splits.end(), options.split) == splits.end()) {
    refuse("split", "'" + options.split + "'", "liang2018, random, leave_one_out, ratio or given");
  }
  if (options.pick != "random" && options.pick != "last") {
    refuse("pick", "'" + options.pick + "'", "random or last");
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

StepCount count_rows(std::string step, const Csr& rows, std::int64_t items) {
  std::vector<bool> seen(static_cast<std::size_t>(items), false);
  for (const std::int32_t column : rows.columns) seen[static_cast<std::size_t>(column)] = true;
  std::int64_t users = 0;
  for (std::int64_t r = 0; r < rows.rows(); ++r) users += rows.view().row_size(r) > 0 ? 1 : 0;
  return {std::move(step), rows.view().entries(), users, std::count(seen.begin(), seen.end(), true)};
}

void report_part(const std::string& name, const HeldOutPart& part, bool weak, std::int64_t items,
                 PrepareReport& report, Log& log) {
  if (weak && part.targets.rows() == 0) return;
  report.steps.push_back(count_events(name + ": dropped, no train user has the item", part.unknown));
  if (!weak) report.steps.push_back(count_rows(name + ": fold-in", part.fold_in, items));
  report.steps.push_back(count_rows(name + ": targets", part.targets, items));
  report.steps.push_back({name + ": users without a target", 0, part.without_target, 0});
  if (part.without_target > 0) {
    log.warn("{} of {} {} users have no target, since they have too few events: metrics leave them out",
             part.without_target, part.targets.rows(), name);
  }
}

std::int64_t entries(const HeldOutPart& part) {
  return part.fold_in.view().entries() + part.targets.view().entries();
}

void write_rows(io::DatasetWriter& writer, const std::string& matrix, Csr& rows) {
  sort_rows(rows);
  for (std::int64_t r = 0; r < rows.rows(); ++r) writer.append_row(matrix, rows.view().row(r));
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
                const Split& split, std::int64_t begin, HeldOutPart& part, UserFeatures& features) {
  const std::int64_t rows = part.targets.rows();
  write_rows(writer, name + "/held_out", part.targets);
  if (split.weak && rows > 0) {  // the same users, and what the model sees of them is what it learned from
    writer.link(name + "/fold_in", "train");
    writer.link(name + "/user_id", "train/user_id");
    if (features.any()) writer.link(name + "/features", "train/features");
    return;
  }
  write_rows(writer, name + "/fold_in", part.fold_in);
  write_users(writer, name, ratings, split, begin, rows, features);
}

void write(io::DatasetWriter& writer, const RawRatings& ratings, Split& split, UserFeatures& features) {
  const std::int64_t train_users = split.train.rows();
  writer.set_train_rows(train_users);
  write_users(writer, "train", ratings, split, 0, train_users, features);
  writer.write_ids("items/id", ids_at(ratings.item_ids, split.items));
  write_rows(writer, "train", split.train);
  write_part(writer, "validation", ratings, split, train_users, split.validation, features);
  write_part(writer, "test", ratings, split, train_users + split.validation.targets.rows(), split.test,
             features);
}

// A split of one's own may ask for what the user has already.
void report_overlap(const Split& split, const HeldOutPart& part, const std::string& name, Log& log) {
  const Csr& seen = split.weak ? split.train : part.fold_in;
  std::int64_t both = 0;
  std::vector<std::int32_t> sorted;
  for (std::int64_t row = 0; row < part.targets.rows(); ++row) {
    const auto columns = seen.view().row(row);
    sorted.assign(columns.begin(), columns.end());
    std::sort(sorted.begin(), sorted.end());
    for (const std::int32_t target : part.targets.view().row(row)) {
      both += std::binary_search(sorted.begin(), sorted.end(), target) ? 1 : 0;
    }
  }
  if (both > 0) {
    log.warn(
        "{} {} targets are among the items that the model is shown of the same user: they are kept, and "
        "count as never found",
        both, name);
  }
}

}  // namespace

PrepareReport prepare(const SourceOptions& source, const PrepareOptions& options, const std::string& name,
                      const std::string& output, const PrepareMode& mode, Log& log, Progress& progress) {
  check_options(options);
  const io::Attributes made_by = recipe(source, options, name);
  std::vector<std::string> paths = source_files(source).paths;
  if (options.split == "given" && source.format != "pro_sg") {
    for (const Part part : {Part::validation, Part::test}) {
      for (const std::string& path : part_files(source, part).paths) {
        if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
      }
    }
  }
  if (const TitleFile titles = title_file(source); titles.member.empty() && !titles.path.empty()) {
    paths.push_back(titles.path);
  }
  UsersFile users;
  if (!options.features.empty()) {
    users = users_file_of(source);
    if (std::find(paths.begin(), paths.end(), users.path) == paths.end()) paths.push_back(users.path);
  }
  PrepareReport report;
  if (!mode.force && !mode.strict) report.stored_table = stored_table(output, made_by, paths, options.layout);
  report.was_there = !report.stored_table.empty();
  if (report.was_there) return report;

  io::DatasetWriter writer(
      output, options.layout);  // before the long work: a folder that cannot be written shows now
  auto description = std::async(std::launch::async, [&paths] { return describe_sources(paths); });
  UserFeatures features;
  if (!options.features.empty()) features = UserFeatures(source, options, users, mode.strict);
  RawRatings ratings = read_ratings(source, wanted_of(options, mode.strict), log, progress);
  filter_events(ratings, options, report);
  report.findings = ratings.findings.list();
  Split split = make_split(ratings, options);
  ratings.events = {};

  const auto items = static_cast<std::int64_t>(split.items.size());
  report.steps.push_back(count_rows("train", split.train, items));
  report_part("validation", split.validation, split.weak, items, report, log);
  report_part("test", split.test, split.weak, items, report, log);
  if (options.split == "given") {
    report_overlap(split, split.validation, "validation", log);
    report_overlap(split, split.test, "test", log);
  }

  log.info("writing {}", output);
  for (const auto& [key, value] : made_by) writer.set_attribute(key, value);
  writer.set_attribute("users", static_cast<std::int64_t>(split.users.size()));
  writer.set_attribute("items", items);
  writer.set_attribute("interactions",
                       split.train.view().entries() + entries(split.validation) + entries(split.test));
  writer.set_attribute("lines_read", report.lines_read);
  writer.set_attribute("duplicates_dropped", report.duplicates_dropped);
  write(writer, ratings, split, features);
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
