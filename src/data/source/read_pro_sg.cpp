#include <vaecf/base/error.hpp>

#include <limits>
#include <map>
#include <set>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

const std::map<std::string, SplitPart>& parts_of_files() {
  static const std::map<std::string, SplitPart> parts{{"train.csv", SplitPart::train},
                                                      {"validation_tr.csv", SplitPart::validation_fold_in},
                                                      {"validation_te.csv", SplitPart::validation},
                                                      {"test_tr.csv", SplitPart::test_fold_in},
                                                      {"test_te.csv", SplitPart::test}};
  return parts;
}

bool parse_index(std::string_view field, std::int32_t& index) {
  return parse_number(field, index) && index >= 0 && index < std::numeric_limits<std::int32_t>::max();
}

io::IdList read_ids(LineReader& lines) {
  IdColumn ids;
  std::string_view line;
  for (std::int32_t number = 0; lines.next(line); ++number) {
    const auto refuse = [&](const std::string& what) {
      throw InputError(format("{}:{}: '{}': {}", lines.name(), lines.number(), excerpt(line), what));
    };
    if (number + 1 != lines.number())
      refuse("an empty line precedes it, but line numbers are indices of users or items");
    if (const char* const problem = id_problem(line)) refuse(format("the {}; correct it", problem));
    auto kind = IdColumn::Id::known;
    if (const std::int32_t first = ids.number(line, kind); first != number) {
      refuse(
          format("this id also occurs in line {}, but ids must be unique; the files are damaged", first + 1));
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

void read_pairs(LineReader& lines, SplitPart part, RatingsBuilder& to, Largest& largest) {
  to.start_file(lines.name(), part);
  const std::string separator = take_separator(lines, ",", "data.source.format: pro_sg", {});
  Table table(lines, {.separator = separator, .header = true, .quotes = true});
  const std::size_t uid = table.column("uid", "all files of pro_sg have");
  const std::size_t sid = table.column("sid", "all files of pro_sg have");
  while (table.next()) {
    to.start_line(table.number(), table.line());
    if (table.has_several_lines()) to.note(several_lines);
    std::int32_t user = 0;
    std::int32_t item = 0;
    if (const char* const problem = table.problem()) {
      to.drop(problem);
    } else if (!parse_index(table.at(uid), user) || !parse_index(table.at(sid), item)) {
      to.drop("uid or sid is not a non-negative integer");
    } else {
      to.add_numbered(user, item);
      if (user > largest.user.value) largest.user = {user, to.where()};
      if (item > largest.item.value) largest.item = {item, to.where()};
    }
  }
}

// Sets the ids to 0, 1, .. if the source has no id list. Throws InputError if the list is too short, or if an
// index is much larger than the number of lines: a single wrong one would create a dataset with almost only
// empty rows.
void complete(io::IdList& ids, const Number& largest, std::int64_t lines, const char* list,
              const char* what) {
  const std::int64_t most = std::int64_t{largest.value} + 1;
  if (ids.size() == 0) {
    if (most > 2 * lines + 1000) {
      throw InputError(format(
          "{}: {} {} is too large for {} lines, since indices are consecutive from 0; correct the index, or add the file {}",
          largest.where, what, largest.value, lines, list));
    }
    ids = io::numbers_from(0, most);
  } else if (ids.size() < most) {
    throw InputError(format("{} has {} lines, but {} {} occurs; the files do not belong to the same split",
                            list, ids.size(), what, most - 1));
  }
}

}  // namespace

void read_pro_sg(const SourceOptions&, const SourceFiles& of, SplitPart, RatingsBuilder& to,
                 Progress& progress) {
  if (!to.wanted().part)
    throw InputError("data.source.format: pro_sg is already split; set data.prepare.split: given");
  LineReader lines(of.reader(), progress);
  RawRatings& ratings = to.ratings();
  ratings.numbered_by_source = true;
  std::set<std::string> seen;
  Largest largest;
  while (lines.next_file()) {
    const std::string name = lines.files().file_name();
    if (!seen.insert(name).second)
      throw InputError(format("{}: there are two files with this name; remove one", lines.name()));
    if (name == "unique_sid.txt") {
      ratings.item_ids = read_ids(lines);
    } else if (name == "unique_uid.txt") {
      ratings.user_ids = read_ids(lines);
    } else if (const auto part = parts_of_files().find(name); part == parts_of_files().end()) {
      throw InputError(format(
          "{}: is not one of the files of a pro_sg folder; set data.source.path to the folder or its archive",
          lines.name()));
    } else if (to.wanted().needs_part(part->second)) {
      read_pairs(lines, part->second, to, largest);
    }
  }
  for (const auto& [name, part] : parts_of_files())
    if (!seen.contains(name)) throw InputError(format("the pro_sg folder contains no {}; add it", name));
  complete(ratings.item_ids, largest.item, ratings.lines, "unique_sid.txt", "sid");
  complete(ratings.user_ids, largest.user, ratings.lines, "unique_uid.txt", "uid");
}

}  // namespace vaecf::data
