#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/prepare/event_store.hpp"

namespace vaecf::data {

/// Assigns indices 0, 1, ... to distinct ids in order of first appearance: a hash table with open addressing
/// over a list. `Id` (int64 or string) is the stored type, `Key` the lookup type.
template <class Id, class Key>
class IdTable {
 public:
  /// Returns the index of `key`, which is added if it is new. Throws InputError beyond 2^31 - 1 ids.
  std::int32_t find_or_add(Key key) {
    if (2 * (ids_.size() + 1) > slots_.size()) grow();
    std::size_t slot = hash(key) & (slots_.size() - 1);
    while (slots_[slot] >= 0) {
      if (ids_[slots_[slot]] == key) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    if (ids_.size() >= max_ids)
      throw InputError("more than 2^31 - 1 different users or items; split the source");
    slots_[slot] = static_cast<std::int32_t>(ids_.size());
    ids_.emplace_back(key);
    return slots_[slot];
  }

  /// Returns the index of `key`, -1 if it was never added.
  std::int32_t find(Key key) const {
    if (slots_.empty()) return -1;
    std::size_t slot = hash(key) & (slots_.size() - 1);
    while (slots_[slot] >= 0 && ids_[slots_[slot]] != key) slot = (slot + 1) & (slots_.size() - 1);
    return slots_[slot];
  }

  std::size_t size() const { return ids_.size(); }
  /// Returns the ids in the order of their indices.
  const std::vector<Id>& ids() const { return ids_; }
  /// Moves the ids out, in the order of their indices.
  std::vector<Id> take() { return std::exchange(ids_, {}); }

 private:
  static constexpr std::size_t max_ids = std::numeric_limits<std::int32_t>::max();

  static std::size_t hash(std::int64_t key) {
    auto bits = static_cast<std::uint64_t>(key);  // finalizer of SplitMix64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
    return bits ^ (bits >> 31);
  }
  static std::size_t hash(std::string_view key) { return std::hash<std::string_view>{}(key); }

  void grow() {
    slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), -1);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::size_t slot = hash(ids_[i]) & (slots_.size() - 1);
      while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::int32_t>(i);
    }
  }

  std::vector<Id> ids_;
  // Index into ids_, or -1. The size is a power of two, and at most half of the slots are used.
  std::vector<std::int32_t> slots_;
};

/// Parses an integer id. Returns false unless printing it gives `text` again: "7", but not "007", "+7" or
/// "7.0".
[[nodiscard]] inline bool parse_integer_id(std::string_view text, std::int64_t& id) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.starts_with('0') && text != "0") return false;
  return parse_number(text, id);
}

/// Counts the malformed lines of a source by kind and keeps the locations of the first few.
class DataIssues {
 public:
  static constexpr std::size_t shown = 3;  ///< number of examples kept per kind

  explicit DataIssues(bool strict = false) : strict_(strict) {}

  /// Counts a dropped line (or value) of kind `what`. `where()` returns "file:line: 'text'" and is called for
  /// the first few only. In strict mode it throws InputError instead.
  template <class Where>
  void dropped(std::string_view what, Where where) {
    add(what, true, where);
  }
  /// Counts an unusual line of kind `what` that is kept; otherwise like dropped().
  template <class Where>
  void kept(std::string_view what, Where where) {
    add(what, false, where);
  }
  /// Counts a line of kind `what` that is kept and that is no error in strict mode either.
  template <class Where>
  void noted(std::string_view what, Where where) {
    count(what, false, where);
  }
  /// Adds `count` dropped lines of kind `what` without examples.
  void add_count(std::string_view what, std::int64_t count) { of(what, true).count += count; }

  std::int64_t lines_dropped() const;
  const std::vector<DataIssue>& list() const { return list_; }
  /// Returns the first example of the most frequent kind of dropped line, with its kind.
  std::string most_frequent_example() const;
  /// Logs one warning per kind.
  void log_to(Log& log) const;

 private:
  template <class Where>
  void add(std::string_view what, bool is_dropped, Where& where) {
    if (strict_) throw_strict(what, where());
    count(what, is_dropped, where);
  }
  template <class Where>
  void count(std::string_view what, bool is_dropped, Where& where) {
    DataIssue& issue = of(what, is_dropped);
    ++issue.count;
    if (issue.examples.size() < shown) issue.examples.push_back(where());
  }
  [[noreturn]] static void throw_strict(std::string_view what, const std::string& where);
  DataIssue& of(std::string_view what, bool is_dropped);

  bool strict_;
  std::vector<DataIssue> list_;
};

/// Source line of every event, stored as runs of consecutive lines with one event each.
class SourceLocations {
 public:
  void start_file(const std::string& name);
  /// Adds event `event`, the next one, which comes from line `line` of the current file. `and_more`: the line
  /// has several events.
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
  /// Returns "file:line" of an event.
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

/// Events of a source, with its ids.
struct RawRatings {
  EventStore events;
  io::IdList user_ids{};
  io::IdList item_ids{};
  SourceLocations locations{};
  DataIssues issues{};
  std::int64_t lines = 0;
  std::string standard_input{};  ///< its size and digest, if it was read
  bool times_are_dates = false;  ///< in the source; otherwise they are numbers
  /// The source defines the indices of users and items, so rows and columns keep their order (pro_sg).
  bool numbered_by_source = false;
  /// The events of a user are ordered by item id instead of by position in the source (netflix).
  bool ordered_by_item = false;
  /// The source has no ratings, so every event is positive.
  bool unrated = false;
};

/// Returns why `id` is invalid ("id is empty"), or nullptr if it is valid.
const char* id_problem(std::string_view id);

/// Assigns indices to the ids of one column in order of first appearance. Ids are integers until the first
/// one that is not; from then on all are strings. They therefore print exactly as in the source.
class IdColumn {
 public:
  /// `turned_to_text`: the first id that is not an integer, after others that are.
  enum class Id { known, fresh, turned_to_text };

  std::int32_t number(std::string_view field, Id& kind) {
    std::int64_t id = 0;
    if (text_ || !parse_integer_id(field, id)) return number_of_text(field, kind);
    // Fast path: lines of most files are in the order of user or by item.
    if (id != last_id_ || last_number_ < 0) {
      last_id_ = id;
      last_number_ = number_of_integer(id);
    }
    return last_number_;
  }
  io::IdList take() { return {integers_.take(), strings_.take()}; }
  /// Returns whether the first id is not an integer and all others are, as for a header that is read as data.
  bool only_first_is_text() const;

 private:
  std::int32_t number_of_text(std::string_view field, Id& kind);

  std::int32_t number_of_integer(std::int64_t id) {
    if (id < 0 || id >= max_small_ids) return integers_.find_or_add(id);
    const auto index = static_cast<std::size_t>(id);
    if (index >= number_of_small_.size())
      number_of_small_.resize(std::min(2 * index + 1, static_cast<std::size_t>(max_small_ids)), -1);
    std::int32_t& number = number_of_small_[index];
    if (number < 0) number = integers_.find_or_add(id);
    return number;
  }

  // Smaller ids are looked up in an array, with one memory access instead of two; it takes at most 16 MiB.
  static constexpr std::int64_t max_small_ids = std::int64_t{1} << 22;

  bool text_ = false;
  std::int64_t last_id_ = 0;
  std::int32_t last_number_ = -1;
  std::vector<std::int32_t> number_of_small_;
  IdTable<std::int64_t, std::int64_t> integers_;
  IdTable<std::string, std::string_view> strings_;
};

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
