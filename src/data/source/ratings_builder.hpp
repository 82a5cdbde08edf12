#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/event_store.hpp"
#include "data/source/findings.hpp"
#include "data/source/id_table.hpp"

namespace vaecf::data {

/// The line of a file that each event comes from, stored as runs of lines with one event each.
class SourceLocations {
 public:
  void start_file(const std::string& name);
  /// Adds event `event`, the next one, of line `line` of the current file. `and_more`: the line holds
  /// several.
  void add(std::int64_t event, std::int64_t line, bool and_more = false) {
    if (line == expected_line_ && !and_more) {
      ++expected_line_;
      return;
    }
    const auto file = static_cast<std::int32_t>(files_.size()) - 1;
    if (and_more && !runs_.empty() && !runs_.back().line_each && runs_.back().line == line &&
        runs_.back().file == file) {
      return;
    }
    runs_.push_back({event, file, !and_more, line});
    expected_line_ = and_more ? -1 : line + 1;
  }
  /// Returns "file:line".
  std::string location_of(std::int64_t event) const;

 private:
  struct Run {
    std::int64_t event;
    std::int32_t file;
    bool line_each;
    std::int64_t line;
  };

  std::vector<std::string> files_;
  std::vector<Run> runs_;
  std::int64_t expected_line_ = -1;
};

/// All lines of a source, with the ids as the source has them.
struct RawRatings {
  EventStore events;
  io::IdList user_ids{};
  io::IdList item_ids{};
  SourceLocations locations{};
  Findings findings{};
  std::int64_t lines = 0;
  /// The numbers of users and items are the source's own: rows and columns keep their order (pro_sg).
  bool numbered_by_source = false;
  /// Events count as if they were in order of the ids of their items, in whatever order they are read
  /// (netflix).
  bool ordered_by_item = false;
};

/// Why `id` cannot be one: "is empty"; nullptr: it can.
const char* id_problem(std::string_view id);

/// The ids of one column, numbered as they appear: integers, until one turns up that is none; from then on
/// all are text. So they print back as they were written.
class IdColumn {
 public:
  enum class Id { known, fresh, turned_to_text };

  std::int32_t number(std::string_view field, Id& kind) {
    std::int64_t id = 0;
    if (text_ || !parse_integer_id(field, id)) return number_of_text(field, kind);
    // Most files keep the lines of a user, or of an item, together.
    if (id != last_id_ || last_number_ < 0) {
      last_id_ = id;
      last_number_ = number_of_integer(id);
    }
    return last_number_;
  }
  io::IdList take() { return {integers_.take(), strings_.take()}; }

 private:
  std::int32_t number_of_text(std::string_view field, Id& kind);

  std::int32_t number_of_integer(std::int64_t id) {
    if (id < 0 || id >= most_small_ids) return integers_.find_or_add(id);
    const auto index = static_cast<std::size_t>(id);
    if (index >= number_of_small_.size()) {
      number_of_small_.resize(std::min(2 * index + 1, static_cast<std::size_t>(most_small_ids)), -1);
    }
    std::int32_t& number = number_of_small_[index];
    if (number < 0) number = integers_.find_or_add(id);
    return number;
  }

  // Ids below this are looked up in a plain list, one access to memory instead of two; 16 MiB at most.
  static constexpr std::int64_t most_small_ids = std::int64_t{1} << 22;

  bool text_ = false;
  std::int64_t last_id_ = 0;
  std::int32_t last_number_ = -1;
  std::vector<std::int32_t> number_of_small_;
  IdTable<std::int64_t, std::int64_t> integers_;
  IdTable<std::string, std::string_view> strings_;
};

/// What a reader is asked for beyond users and items.
struct Wanted {
  double min_rating = 0.0;
  bool time = false;
  bool part = false;
  bool validation = true;  ///< of a source that is split already
  bool test = true;
  bool strict = false;
  /// Bytes of memory that events may take; beyond it they go to a file beside `spill_beside`.
  double memory = std::numeric_limits<double>::infinity();
  std::string spill_beside{};

  /// Whether events of a part of a source that is split already are asked for.
  bool wants(Part of) const {
    if (of == Part::validation || of == Part::validation_fold_in) return validation;
    return of == Part::train || test;
  }
};

Wanted wanted_of(const PrepareOptions& options, bool strict);

/// Seconds since 1970 of a date with the year first, as ISO 8601 has it and some others nearly: 2005-09-06,
/// 2005/09/06 13:59:01, 2005-09-06T13:59:01.25Z, 20050906T135901, 2005-09-06 13:59+02:00. Without a zone it
/// is taken for UTC. False where it is none, or no day that there is.
bool parse_date(std::string_view text, double& seconds);

/// Collects the events of a source, line by line, and what is odd about them.
class RatingsBuilder {
 public:
  RatingsBuilder(const Wanted& wanted, Log& log);

  const Wanted& wanted() const { return wanted_; }
  Findings& findings() { return ratings_.findings; }
  RawRatings& ratings() { return ratings_; }

  void start_file(const std::string& name, Part part);
  /// From here on events are those of line `number`, which reads `text`. Lines are counted.
  void start_line(std::int64_t number, std::string_view text) {
    ++ratings_.lines;
    line_ = number;
    text_ = text;
  }
  /// "file:line: 'text'" of the current line.
  std::string where() const;
  void drop(std::string_view what) {
    findings().dropped(what, [&] { return where(); });
  }

  /// An event of the current line; false where an id cannot be one. `and_more`: the line holds several.
  bool add(std::string_view user, std::string_view item, bool liked = true, double time = 0.0,
           bool and_more = false);
  /// An event of a source that numbers users and items itself.
  void add_numbered(std::int32_t user, std::int32_t item);
  /// rating >= min_rating; false where it is no finite number, and the line is dropped.
  bool read_rating(std::string_view field, bool& liked);
  /// Numbers, or dates such as 2005-09-06; false, and the line is dropped, for what is neither, and for the
  /// one where the first line has the other: they would not be in order.
  bool read_time(std::string_view field, double& time);
  RawRatings take();

 private:
  void append(std::int32_t user, std::int32_t item, bool liked, double time, bool and_more);
  /// Whether it can be one; if not, the line is dropped.
  bool is_id(std::string_view field, const char* what);
  std::int32_t number(IdColumn& column, std::string_view field, const char* what);

  Wanted wanted_;
  Log* log_;
  RawRatings ratings_;
  IdColumn users_;
  IdColumn items_;
  std::string file_;
  Part part_ = Part::train;
  std::int64_t line_ = 0;
  std::string_view text_;
  enum class Times { unknown, numbers, dates } times_ = Times::unknown;
};

}  // namespace vaecf::data
