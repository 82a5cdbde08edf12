#include "data/parse.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "data/id_table.hpp"
#include "data/line_reader.hpp"
#include "data/source_layout.hpp"

namespace vaecf::data {
namespace {

[[noreturn]] void fail(const LineReader& reader, std::string_view problem, std::string_view text,
                       std::string_view advice) {
  throw InputError(
      format("{}:{}: {}: '{}'; {}", reader.path(), reader.number(), problem, excerpt(text), advice));
}

// The ids of one column.
class IdColumn {
 public:
  explicit IdColumn(bool text) : text_(text) {}

  // -1: the first id that is no integer, in a column read as integers.
  std::int32_t number(std::string_view field) {
    if (text_) return strings_.find_or_add(field);
    std::int64_t id = 0;
    return parse_integer_id(field, id) ? integers_.find_or_add(id) : -1;
  }
  io::IdList take() { return {integers_.take(), strings_.take()}; }

 private:
  bool text_;
  IdTable<std::int64_t, std::int64_t> integers_;
  IdTable<std::string, std::string_view> strings_;
};

bool read_liked(const LineReader& reader, std::string_view field, std::string_view line, double min_rating) {
  double rating = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), rating);
  if (error != std::errc{} || end != field.data() + field.size()) {
    fail(reader, format("the rating '{}' is not a number", excerpt(field)), line,
         "correct or remove the line");
  }
  if (!std::isfinite(rating)) {
    fail(reader, format("the rating '{}' is not a finite number", excerpt(field)), line,
         "correct or remove the line");
  }
  return rating >= min_rating;
}

// Grows to what the rest of the file will need, rather than to twice what there is.
void make_room(RawRatings& ratings, const LineReader& reader) {
  if (ratings.liked.size() < ratings.liked.capacity()) return;
  const auto share_read = static_cast<double>(reader.bytes_read()) / static_cast<double>(reader.file_bytes());
  const auto estimate = static_cast<double>(ratings.liked.size()) / share_read * 1.02;
  if (!(estimate > 1e5) || !(estimate < 1e11)) return;
  const auto capacity = static_cast<std::size_t>(estimate) + ratings.liked.size() / 16;
  ratings.events.user.reserve(capacity);
  ratings.events.item.reserve(capacity);
  ratings.liked.reserve(capacity);
}

struct TextColumns {
  bool users = false;
  bool items = false;
};

// One pass over the file. Empty where a column turned out to hold text: `text` then says so, and the file
// is read again, since ids must print back as they were written.
std::optional<RawRatings> read_once(const SourceLayout& layout, double min_rating, TextColumns& text,
                                    Log& log, Progress& progress) {
  LineReader reader(layout.file, progress);
  std::string_view line;
  if (layout.header && !reader.next(line)) {
    throw InputError(format("{}: the file is empty: give one with a header and ratings", layout.file));
  }
  const ColumnIndices columns = column_indices(layout, line);

  RawRatings ratings;
  IdColumn users(text.users);
  IdColumn items(text.items);
  std::vector<std::string_view> fields(static_cast<std::size_t>(columns.needed));
  while (reader.next(line)) {
    const std::size_t found = split_fields(line, layout.separator, fields);
    if (found < fields.size()) {
      fail(reader, format("{} columns, but {} are needed", found, fields.size()), line,
           "check data.source's format, separator and columns, or remove the line");
    }
    const std::string_view user_field = fields[static_cast<std::size_t>(columns.user)];
    const std::string_view item_field = fields[static_cast<std::size_t>(columns.item)];
    if (user_field.empty()) fail(reader, "the user is empty", line, "correct or remove the line");
    if (item_field.empty()) fail(reader, "the item is empty", line, "correct or remove the line");
    bool liked = true;
    if (columns.rating >= 0) {
      const std::string_view field = fields[static_cast<std::size_t>(columns.rating)];
      if (field.empty()) fail(reader, "the rating is empty", line, "correct or remove the line");
      liked = read_liked(reader, field, line, min_rating);
    }
    const std::int32_t user = users.number(user_field);
    const std::int32_t item = items.number(item_field);
    if (user < 0 || item < 0) {
      const char* const what = user < 0 ? "user" : "item";
      log.warn("{}:{}: {} id '{}' is not an integer: {} ids are taken as text, and sorted as text",
               layout.file, reader.number(), what, excerpt(user < 0 ? user_field : item_field), what);
      (user < 0 ? text.users : text.items) = true;
      return std::nullopt;
    }
    make_room(ratings, reader);
    ratings.events.user.push_back(user);
    ratings.events.item.push_back(item);
    ratings.liked.push_back(liked ? 1 : 0);
  }
  if (ratings.events.size() == 0) {
    throw InputError(
        format("{}: the file holds no ratings: check data.source.path and data.source.header", layout.file));
  }
  ratings.user_ids = users.take();
  ratings.item_ids = items.take();
  ratings.source = format("{} ({} bytes, sha256 {})", std::filesystem::path(layout.file).filename().string(),
                          reader.bytes_read(), reader.sha256());
  return ratings;
}

}  // namespace

RawRatings read_ratings(const SourceOptions& source, double min_rating, Log& log, Progress& progress) {
  const SourceLayout layout = source_layout(source);
  TextColumns text;
  while (true) {
    if (auto ratings = read_once(layout, min_rating, text, log, progress)) return std::move(*ratings);
  }
}

}  // namespace vaecf::data
