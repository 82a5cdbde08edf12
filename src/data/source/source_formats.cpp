#include "data/source/source_formats.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>

namespace vaecf::data {
namespace {

void check_columns(const SourceOptions& source) {
  if (source.user_column != source.item_column || source.user_column == automatic_column) return;
  throw InputError(
      format("data.source.user_column '{}' and data.source.item_column '{}' must be two different columns",
             excerpt(source.user_column), excerpt(source.item_column)));
}

SourceLayout delimited_layout(const SourceOptions& source) {
  const std::string separator = source.separator == "\\t" ? "\t" : source.separator;
  if (separator.find_first_of("\r\n\"") != std::string::npos)
    throw InputError("data.source.separator must be one or more characters within a line, such as \",\"");
  check_columns(source);
  return {
      {.separator = separator.empty() ? "," : separator, .header = source.header, .quotes = source.quotes},
      source.user_column,
      source.item_column,
      source.rating_column,
      source.time_column};
}

SourceLayout json_layout(const SourceOptions& source) {
  check_columns(source);
  return {{}, source.user_column, source.item_column, source.rating_column, source.time_column};
}

TableLayout users_table(const char* separator, std::vector<std::string> names) {
  return {.separator = separator, .names = std::move(names), .keys = "data.source.users"};
}

TableLayout items_table(const char* separator, std::vector<std::string> names) {
  return {.separator = separator, .names = std::move(names), .keys = "data.source.items"};
}

/// Returns the columns of MovieLens 100K's u.item, of which the last ones are 0 or 1.
std::vector<std::string> columns_of_u_item() {
  return {"item",        "title",     "date",      "video_date", "url",    "unknown",
          "Action",      "Adventure", "Animation", "Children's", "Comedy", "Crime",
          "Documentary", "Drama",     "Fantasy",   "Film-Noir",  "Horror", "Musical",
          "Mystery",     "Romance",   "Sci-Fi",    "Thriller",   "War",    "Western"};
}

std::vector<SourceFormat> make_formats() {
  return {
      {.name = "movielens_csv",
       .description = "ratings.csv (20M, 25M, 32M, latest): header with userId, movieId, rating, timestamp",
       .files = {"ratings.csv"},
       .layout =
           {{.separator = ",", .header = true, .quotes = true}, "userId", "movieId", "rating", "timestamp"},
       .titles = {{"movies.csv"}, {.separator = ",", .quotes = true}},
       .items = {.file = "movies.csv",
                 .layout = {.separator = ",", .header = true, .quotes = true, .keys = "data.source.items"},
                 .nothing = "(no genres listed)"}},
      {.name = "movielens_dat",
       .description = "ratings.dat (1M, 10M): user::movie::rating::time",
       .files = {"ratings.dat"},
       .layout = {.table = {.separator = "::"}, .rating = "2", .time = "3"},
       .titles = {{"movies.dat"}, {.separator = "::"}},
       .users = {"users.dat", users_table("::", {"user", "gender", "age", "occupation", "zip"})},
       .items = {"movies.dat", items_table("::", {"item", "title", "genres"})}},
      {.name = "movielens_100k",
       .description = "u.data: user TAB movie TAB rating TAB time",
       .files = {"u.data"},
       .layout = {.table = {.separator = "\t"}, .rating = "2", .time = "3"},
       .titles = {{"u.item"}, {.separator = "|"}},
       .users = {"u.user", users_table("|", {"user", "age", "gender", "occupation", "zip"})},
       .items = {.file = "u.item",
                 .layout = items_table("|", columns_of_u_item()),
                 .flags = "genres",
                 .first_flag = 6}},
      {.name = "netflix",
       .description = "mv_*.txt or combined_data_*.txt: N: starts a movie; customer,rating,date",
       .files = {"mv_*.txt", "combined_data_*.txt", "*.txt"},
       .read = read_netflix,
       .layout = {.rating = "1", .time = "2"},
       .parts = PartFiles::none,
       .several_files = true,
       .titles = {{"movie_titles.csv", "movie_titles.txt"}, {.separator = ","}, 2, true, true}},
      // Names contain quotes without meaning, and some additional TABs.
      {.name = "lastfm_360k",
       .description = "usersha1-artmbid-artname-plays.tsv: user TAB artist id TAB artist TAB plays",
       .files = {"usersha1-artmbid-artname-plays.tsv"},
       .layout = {{.separator = "\t", .exactly = 4}, "0", "1", "3", "", "2"},
       .users = {"usersha1-profile.tsv", users_table("\t", {"user", "gender", "age", "country", "signup"})}},
      {.name = "lastfm_2k",
       .description = "user_artists.dat: header; userID TAB artistID TAB plays (HetRec 2011)",
       .files = {"user_artists.dat"},
       .layout = {{.separator = "\t", .header = true}, "userID", "artistID", "weight"},
       .titles = {{"artists.dat"}, {.separator = "\t"}}},
      {.name = "msd",
       .description = "train_triplets.txt: user TAB song TAB plays",
       .files = {"train_triplets.txt"},
       .layout = {.table = {.separator = "\t"}, .rating = "2"}},
      {.name = "pinterest",
       .description = "subset_iccv_board_pins.bson: documents with board_id and pins",
       .files = {"subset_iccv_board_pins.bson"},
       .read = read_pinterest,
       .parts = PartFiles::none},
      {.name = "adjacency",
       .description = "train.txt, users.dat: user item item ... (or count item ... item)",
       .files = {"train.txt", "users.dat"},
       .read = read_adjacency,
       .options = {"list_starts_with"}},
      {.name = "pro_sg",
       .description = "folder written by the Mult-VAE notebook; requires split: given",
       .files = {"train.csv", "validation_tr.csv", "validation_te.csv", "test_tr.csv", "test_te.csv",
                 "unique_sid.txt", "unique_uid.txt"},
       .read = read_pro_sg,
       .parts = PartFiles::same,
       .several_files = true},
      {.name = "delimited",
       .description = "any file with one line per interaction; columns by name or index",
       .given_layout = delimited_layout,
       .options = {"separator", "header", "quotes", "user_column", "item_column", "rating_column",
                   "time_column"},
       .whole_folder = true},
      {.name = "json_lines",
       .description = "any file with one JSON object per line; columns are its keys",
       .read = read_json_objects,
       .given_layout = json_layout,
       .options = {"user_column", "item_column", "rating_column", "time_column"},
       .whole_folder = true},
  };
}

}  // namespace

const std::vector<SourceFormat>& formats() {
  static const std::vector<SourceFormat> all = make_formats();
  return all;
}

const SourceFormat& format_of(const SourceOptions& source) {
  const auto found = std::ranges::find(formats(), source.format, &SourceFormat::name);
  if (found == formats().end()) {
    throw InputError(format("data.source.format '{}' is unknown; use {}", excerpt(source.format),
                            join(source_formats(), " or ")));
  }
  return *found;
}

SourceLayout source_layout(const SourceOptions& source) {
  if (source.format.empty()) return {};
  const SourceFormat& format = format_of(source);
  return format.given_layout == nullptr ? format.layout : format.given_layout(source);
}

bool has_times(const SourceOptions& source) {
  return !source_layout(source).time.empty();
}

bool has_ratings(const SourceOptions& source) {
  return !source_layout(source).rating.empty();
}

bool takes_columns(const SourceOptions& source) {
  return format_of(source).given_layout != nullptr;
}

std::vector<std::string> source_formats() {
  std::vector<std::string> names;
  for (const SourceFormat& each : formats()) names.push_back(each.name);
  return names;
}

std::string describe_source_formats() {
  std::string text;
  for (const SourceFormat& each : formats()) text += format("  {:<15} {}\n", each.name, each.description);
  return text;
}

std::string formats_that_use(std::string_view option) {
  std::vector<std::string> names;
  for (const SourceFormat& each : formats())
    if (std::ranges::find(each.options, option) != each.options.end()) names.push_back(each.name);
  return join(names);
}

}  // namespace vaecf::data
