#include <vaecf/base/format.hpp>
#include <vaecf/io/json.hpp>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

// Buffers for the values of one line.
struct ObjectText {
  std::string user, item, rating, time;
};

// Stores a value as text. Returns why it cannot be used, or nullptr: an absent key or null is an empty text.
// `fraction`: numbers need not be integers.
const char* text_of(const io::Json& object, const std::string& key, bool fraction, std::string& text) {
  const auto value = object.find(key);
  text.clear();
  if (value == object.end() || value->is_null()) return nullptr;
  if (value->is_string()) {
    text = value->get_ref<const std::string&>();
  } else if (value->is_number_integer() || (fraction && value->is_number())) {
    text = io::dump(*value);
  } else {
    return fraction ? "is neither a number nor a string" : "is neither a string nor an integer";
  }
  return nullptr;
}

void read_object(std::string_view line, const SourceLayout& keys, RatingsBuilder& to, ObjectText& text) {
  const io::Json object = io::Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return to.drop("the line is not a JSON object");
  const auto take = [&](const std::string& key, bool fraction, std::string& value) {
    const char* const problem = text_of(object, key, fraction, value);
    if (problem != nullptr) to.drop(format("the value of {} {}", key, problem));
    return problem == nullptr;
  };
  if (!take(keys.user, false, text.user) || !take(keys.item, false, text.item)) return;
  double rating = RatingsBuilder::no_rating;
  double time = 0;
  if (!keys.rating.empty() && (!take(keys.rating, true, text.rating) || !to.read_rating(text.rating, rating)))
    return;
  if (to.wanted().time && !keys.time.empty() &&
      (!take(keys.time, true, text.time) || !to.read_time(text.time, time)))
    return;
  to.add(text.user, text.item, rating, time);
}

}  // namespace

void read_json_objects(const SourceOptions& source, const SourceFiles& of, SplitPart part, RatingsBuilder& to,
                       Progress& progress) {
  const SourceLayout keys = source_layout(source);
  LineReader lines(of.reader(), progress, of.one_file());
  ObjectText text;
  std::string_view line;
  while (lines.next_file()) {
    to.start_file(lines.name(), part);
    if (is_empty_part(of, lines, to)) continue;
    while (lines.next(line)) {
      to.start_line(lines.number(), line);
      read_object(line, keys, to, text);
    }
  }
}

}  // namespace vaecf::data
