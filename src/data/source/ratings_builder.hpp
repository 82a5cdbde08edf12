#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/source_options.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "data/prepare/event_store.hpp"
#include "data/source/data_issues.hpp"
#include "data/source/id_column.hpp"
#include "data/source/raw_ratings.hpp"

namespace vaecf::data {

/// Reader options: columns, parts and limits beyond users and items.
struct ReadOptions {
  double min_rating = 0.0;
  bool time = false;
  bool keep_untimed = false;  ///< keep lines whose time cannot be read, as the last of their user and item
  bool rating = false;        ///< store the ratings, not only whether they are at least `min_rating`
  bool part = false;
  bool validation = true;  ///< read the validation part of an already split source
  bool test = true;        ///< read its test part
  bool strict = false;
  /// Memory limit for events in bytes. Events beyond it are stored in a file next to `spill_beside`.
  double memory = std::numeric_limits<double>::infinity();
  std::string spill_beside{};

  /// Returns whether events of this part are to be read.
  bool needs_part(SplitPart of) const {
    if (of == SplitPart::validation || of == SplitPart::validation_fold_in) return validation;
    return of == SplitPart::train || test;
  }
};

/// Returns whether `rule` combines the ratings of repeated events; otherwise one of the events counts.
constexpr bool combines_ratings(DuplicateRule rule) {
  return rule == DuplicateRule::sum || rule == DuplicateRule::max;
}

/// Returns the reader options that `source` and `options` imply. Times are read if the split needs them, and
/// of every source whose columns the configuration names, since the events of a pair are ordered by time. In
/// other formats a pair has one event.
ReadOptions make_read_options(const SourceOptions& source, const PrepareOptions& options, bool strict);

/// The note about a record with line breaks in a quoted field.
inline constexpr const char* several_lines =
    "the record has several lines, since a quoted field contains line breaks";

/// Collects the events of a source and reports malformed lines.
class RatingsBuilder {
 public:
  RatingsBuilder(const ReadOptions& wanted, Log& log);

  /// The rating of an event without one, which passes every minimum.
  static constexpr double no_rating = std::numeric_limits<double>::infinity();

  const ReadOptions& wanted() const { return wanted_; }
  Log& log() { return *log_; }
  DataIssues& issues() { return ratings_.issues; }
  RawRatings& ratings() { return ratings_; }

  /// Starts a file, whose events belong to `part`.
  void start_file(const std::string& name, SplitPart part);
  /// Starts line `number` with the contents `text`, to which the following events belong.
  void start_line(std::int64_t number, std::string_view text) {
    ++ratings_.lines;
    line_ = number;
    text_ = text;
  }
  /// Returns "file:line: 'text'" of the current line.
  std::string where() const;
  /// Reports the current line as dropped because of `what`. `detail` follows the text of the line.
  void drop(std::string_view what, std::string_view detail = {}) {
    issues().dropped(what, [&] { return detail.empty() ? where() : format("{} ({})", where(), detail); });
  }
  /// Reports the current line as unusual because of `what`; never an error.
  void note(std::string_view what) {
    issues().noted(what, [&] { return where(); });
  }

  /// Adds an event of the current line. Drops the line and returns false if an id is invalid. `and_more`: the
  /// line has several events.
  bool add(std::string_view user, std::string_view item, double rating = no_rating, double time = 0.0,
           bool and_more = false);
  /// Adds an event of a source that defines the indices of users and items.
  void add_numbered(std::int32_t user, std::int32_t item);
  /// Parses a rating. Drops the line and returns false if it is not a finite number.
  [[nodiscard]] bool read_rating(std::string_view field, double& rating);
  /// Parses a time, either a number or a date such as 2005-09-06. Other text, and a form that differs from
  /// that of the first line, cannot be compared: calls lack_time() and returns its result.
  [[nodiscard]] bool read_time(std::string_view field, double& time);
  /// Reports that the current line has no time because of `what`. With ReadOptions::keep_untimed, sets `time`
  /// to infinity and returns true; otherwise drops the line and returns false.
  [[nodiscard]] bool lack_time(std::string_view what, double& time);
  /// Moves the result out.
  RawRatings take();

 private:
  void count_rating(double rating);
  void append(std::int32_t user, std::int32_t item, double rating, double time, bool and_more);
  /// Returns whether `field` is a valid id; drops the line otherwise.
  [[nodiscard]] bool is_id(std::string_view field, const char* what);
  std::int32_t number(IdColumn& column, std::string_view field, const char* what);
  /// Moves the ids out, with a warning about a first one that looks like a header.
  io::IdList take_ids(IdColumn& column, const char* what);

  ReadOptions wanted_;
  Log* log_;
  RawRatings ratings_;
  IdColumn users_;
  IdColumn items_;
  std::string file_;
  SplitPart part_ = SplitPart::train;
  std::int64_t line_ = 0;
  std::string_view text_;
  enum class Times { unknown, numbers, dates } times_ = Times::unknown;
  double first_time_ = 0.0;
  bool all_like_dates_ = true;  // all times are whole numbers of the form YYYYMMDD
};

}  // namespace vaecf::data
