#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

const std::map<std::string, Part>& parts_of_files() {
  static const std::map<std::string, Part> parts{{"train.csv", Part::train},
                                                 {"validation_tr.csv", Part::validation_fold_in},
                                                 {"validation_te.csv", Part::validation},
                                                 {"test_tr.csv", Part::test_fold_in},
                                                 {"test_te.csv", Part::test}};
  return parts;
}

bool parse_index(std::string_view field, std::int32_t& index) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), index);
  return error == std::errc{} && end == field.data() + field.size() && index >= 0 &&
         index < std::numeric_limits<std::int32_t>::max();
}

io::IdList read_ids(LineReader& lines) {
  IdColumn ids;
  std::string_view line;
  for (std::int32_t number = 0; lines.next(line); ++number) {
    const auto refuse = [&](const std::string& what) {
      throw InputError(format("{}:{}: '{}': {}", lines.name(), lines.number(), excerpt(line), what));
    };
    if (number + 1 != lines.number()) {
      refuse("there is an empty line before it, but lines are numbers of users or items");
    }
    if (const char* const problem = id_problem(line)) refuse(format("the {}: correct it", problem));
    auto kind = IdColumn::Id::known;
    if (const std::int32_t first = ids.number(line, kind); first != number) {
      refuse(format("this id is that of line {}, too, but each line must have its own: the files are damaged",
                    first + 1));
    }
  }
  return ids.take();
}

struct Number {
  std::int32_t value = -1;
  std::string where{};
};

struct Largest {
  Number user, item;
};

// Lines `uid,sid` of one of the five files.
void read_pairs(LineReader& lines, Part part, RatingsBuilder& to, Largest& largest) {
  to.start_file(lines.name(), part);
  Table table(lines, {.separator = ",", .header = true, .quotes = true});
  const std::size_t uid = table.column("uid", "all files of pro_sg have");
  const std::size_t sid = table.column("sid", "all files of pro_sg have");
  while (table.next()) {
    to.start_line(lines.number(), table.line());
    std::int32_t user = 0;
    std::int32_t item = 0;
    if (const char* const problem = table.problem()) {
      to.drop(problem);
    } else if (!parse_index(table.at(uid), user) || !parse_index(table.at(sid), item)) {
      to.drop("uid or sid is not a number from 0");
    } else {
      to.add_numbered(user, item);
      if (user > largest.user.value) largest.user = {user, to.where()};
      if (item > largest.item.value) largest.item = {item, to.where()};
    }
  }
}

// 0, 1, .. where the source has no list of ids; InputError where the list is too short, and where there are
// far more numbers than lines: a single wrong one would make a dataset that is nearly all empty.
void complete(io::IdList& ids, const Number& largest, std::int64_t lines, const char* list,
              const char* what) {
  const std::int64_t most = std::int64_t{largest.value} + 1;
  if (ids.size() == 0) {
    if (most > 2 * lines + 1000) {
      throw InputError(format(
          "{}: {} {}, of {} lines: they are numbered from 0, one after the other, and this one is far behind; "
          "correct it, or give {}",
          largest.where, what, largest.value, lines, list));
    }
    for (std::int64_t i = 0; i < most; ++i) ids.numbers.push_back(i);
  } else if (ids.size() < most) {
    throw InputError(format("{} has {} lines, but there is a {} {}: the files are not of one split", list,
                            ids.size(), what, most - 1));
  }
}

}  // namespace

void read_pro_sg(const SourceOptions&, const SourceFiles& of, Part, RatingsBuilder& to, Progress& progress) {
  if (!to.wanted().part) {
    throw InputError("data.source.format pro_sg is split already: say data.prepare.split: given");
  }
  LineReader lines(of.reader(), progress);
  RawRatings& ratings = to.ratings();
  ratings.numbered_by_source = true;
  std::set<std::string> seen;
  Largest largest;
  while (lines.next_file()) {
    const std::string name = lines.files().file_name();
    if (!seen.insert(name).second) {
      throw InputError(format("{}: there are two files of that name: leave one", lines.name()));
    }
    if (name == "unique_sid.txt") {
      ratings.item_ids = read_ids(lines);
    } else if (name == "unique_uid.txt") {
      ratings.user_ids = read_ids(lines);
    } else if (const auto part = parts_of_files().find(name); part == parts_of_files().end()) {
      throw InputError(format(
          "{}: is not one of the files of a pro_sg folder: let data.source.path name the folder or its archive",
          lines.name()));
    } else if (to.wanted().wants(part->second)) {
      read_pairs(lines, part->second, to, largest);
    }
  }
  for (const auto& [name, part] : parts_of_files()) {
    if (!seen.contains(name)) {
      throw InputError(format("there is no {} beside the other files of the pro_sg folder: add it", name));
    }
  }
  complete(ratings.item_ids, largest.item, ratings.lines, "unique_sid.txt", "sid");
  complete(ratings.user_ids, largest.user, ratings.lines, "unique_uid.txt", "uid");
}

}  // namespace vaecf::data
