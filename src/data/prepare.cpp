#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/prepare.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/filter.hpp"
#include "data/parse.hpp"
#include "data/split.hpp"

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
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (options.validation_users < 0 || options.validation_users > most) {
    refuse("validation_users", options.validation_users, "between 0 and 2^31 - 1");
  }
  if (options.test_users < 0 || options.test_users > most) {
    refuse("test_users", options.test_users, "between 0 and 2^31 - 1");
  }
  if (options.split != "liang2018" && options.split != "random") {
    refuse("split", "'" + options.split + "'", "liang2018 or random");
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

void report_part(const std::string& name, const HeldOutPart& part, std::int64_t items, PrepareReport& report,
                 Log& log) {
  report.steps.push_back(count_events(name + ": dropped, no train user has the item", part.unknown));
  report.steps.push_back(count_rows(name + ": fold-in", part.fold_in, items));
  report.steps.push_back(count_rows(name + ": targets", part.targets, items));
  report.steps.push_back({name + ": users without a target", 0, part.without_target, 0});
  if (part.without_target > 0) {
    log.warn("{} of {} {} users have no target, since they have too few events: metrics leave them out",
             part.without_target, part.targets.rows(), name);
  }
}

void set_attributes(io::DatasetWriter& writer, const SourceOptions& source, const PrepareOptions& options,
                    const std::string& name, const RawRatings& ratings, const Split& split,
                    const PrepareReport& report) {
  const std::int64_t interactions = split.train.view().entries() + split.validation.fold_in.view().entries() +
                                    split.validation.targets.view().entries() +
                                    split.test.fold_in.view().entries() + split.test.targets.view().entries();
  const io::Attributes attributes{
      {"format_version", std::int64_t{1}},
      {"name", name},
      {"users", static_cast<std::int64_t>(split.users.size())},
      {"items", static_cast<std::int64_t>(split.items.size())},
      {"interactions", interactions},
      {"source", ratings.source},
      {"source_format", source.format},
      {"min_rating", options.min_rating},
      {"min_user_items", options.min_user_items},
      {"min_item_users", options.min_item_users},
      {"validation_users", options.validation_users},
      {"test_users", options.test_users},
      {"held_out_fraction", options.held_out_fraction},
      {"split", options.split},
      {"seed", static_cast<std::int64_t>(options.seed)},
      {"lines_read", report.lines_read},
      {"duplicates_dropped", report.duplicates_dropped},
  };
  for (const auto& [key, value] : attributes) writer.set_attribute(key, value);
  if (source.format != "delimited") return;
  writer.set_attribute("source_separator", source.separator);
  writer.set_attribute("source_header", std::int64_t{source.header});
  writer.set_attribute("source_user_column", source.user_column);
  writer.set_attribute("source_item_column", source.item_column);
  writer.set_attribute("source_rating_column", source.rating_column);
}

void write_rows(io::DatasetWriter& writer, const std::string& matrix, Csr& rows) {
  sort_rows(rows);
  for (std::int64_t r = 0; r < rows.rows(); ++r) writer.append_row(matrix, rows.view().row(r));
}

void write_users(io::DatasetWriter& writer, const std::string& part, const RawRatings& ratings,
                 const Split& split, std::int64_t begin, std::int64_t count) {
  writer.write_ids(
      part + "/user_id",
      ids_at(
          ratings.user_ids,
          std::span(split.users).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count))));
}

}  // namespace

PrepareReport prepare(const SourceOptions& source, const PrepareOptions& options, const std::string& name,
                      const std::string& output, Log& log, Progress& progress) {
  check_options(options);
  io::DatasetWriter writer(output);  // before the long work: a folder that cannot be written shows now

  RawRatings ratings = read_ratings(source, options.min_rating, log, progress);
  PrepareReport report;
  filter_events(ratings, options, report);
  Split split = make_split(ratings, options);
  ratings.events = {};

  const auto items = static_cast<std::int64_t>(split.items.size());
  report.steps.push_back(count_rows("train", split.train, items));
  report_part("validation", split.validation, items, report, log);
  report_part("test", split.test, items, report, log);

  log.info("writing {}", output);
  set_attributes(writer, source, options, name, ratings, split, report);
  const std::int64_t train_users = split.train.rows();
  write_users(writer, "train", ratings, split, 0, train_users);
  write_users(writer, "validation", ratings, split, train_users, options.validation_users);
  write_users(writer, "test", ratings, split, train_users + options.validation_users, options.test_users);
  writer.write_ids("items/id", ids_at(ratings.item_ids, split.items));
  write_rows(writer, "train", split.train);
  write_rows(writer, "validation/fold_in", split.validation.fold_in);
  write_rows(writer, "validation/held_out", split.validation.targets);
  write_rows(writer, "test/fold_in", split.test.fold_in);
  write_rows(writer, "test/held_out", split.test.targets);
  writer.commit();
  return report;
}

}  // namespace vaecf::data
