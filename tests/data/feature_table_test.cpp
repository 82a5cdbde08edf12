#include "data/features/feature_table.hpp"

#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/hashed_users.hpp>

#include <gtest/gtest.h>

#include <tuple>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class UserTables : public test::DataTest {
 protected:
  FeatureTable read(const Texts& columns) {
    issues_ = DataIssues(strict_);
    return read_feature_table(options_, feature_table_location(options_), columns, "the test requires",
                              issues_);
  }
  std::string refusal(const Texts& columns) {
    return message_of<InputError>([&] { read(columns); });
  }
  void use(const std::string& name, const std::string& text) { options_.path = folder_.write(name, text); }

  FeatureTableOptions options_;
  DataIssues issues_;
  bool strict_ = false;
};

/// Returns the values of each user or item in a column, joined with "+", "-" if there are none.
Texts values_of(const FeatureTableColumn& column) {
  Texts values;
  for (std::int64_t row = 0; row < column.of_row.rows(); ++row) {
    Texts of_row;
    for (const std::int32_t value : column.of_row.view().row(row))
      of_row.push_back(column.values[static_cast<std::size_t>(value)]);
    values.push_back(of_row.empty() ? "-" : join(of_row, "+"));
  }
  return values;
}

TEST_F(UserTables, ColumnsAreSelectedByNameOrIndex) {
  use("people.csv", "id,age,\"home, town\"\r\n7,30,\"Bonn, am Rhein\"\r\n8,,Rome\r\n9,30, Rome \r\n");
  FeatureTable table = read({"home, town", "1"});
  EXPECT_EQ(table.ids.take(), (Texts{"7", "8", "9"}));
  EXPECT_EQ(table.columns[0].name, "home, town");
  EXPECT_EQ(values_of(table.columns[0]), (Texts{"Bonn, am Rhein", "Rome", "Rome"}));
  EXPECT_EQ(table.columns[0].values.size(), 2u);
  EXPECT_EQ(table.columns[1].name, "age") << "an index selects the named column";
  EXPECT_EQ(values_of(table.columns[1]), (Texts{"30", "-", "30"}));
  options_.id_column = "home, town";
  table = read({"id"});
  EXPECT_EQ(table.ids.take(), (Texts{"Bonn, am Rhein", "Rome"}));
  EXPECT_EQ(values_of(table.columns[0]), (Texts{"7", "8+9"}));
}

TEST_F(UserTables, ValuesOfRepeatedLinesAreJoined) {
  use("tags.csv", "user,tag,year\n1,A,\n2,A,1999\n1,B,2000\n3,,\n1,C|A,2000\n");
  const FeatureTable table = read({"tag", "year"});
  EXPECT_EQ(table.ids.ids(), (Texts{"1", "2", "3"}));
  EXPECT_EQ(values_of(table.columns[0]), (Texts{"A+B+C+A", "A", "-"}));
  EXPECT_EQ(values_of(table.columns[1]), (Texts{"2000+2000", "1999", "-"}));
  EXPECT_EQ(table.joined_lines, 2);
  EXPECT_TRUE(issues_.list().empty());
}

TEST_F(UserTables, ValuesAreSeparatedAsConfiguredAndHaveNoBlanksAroundThem) {
  use("people.csv", "id,tags\n7,\" Drama, Romance ,|\"\n8,\"\t a  b \"\n9,\" \"\n");
  EXPECT_EQ(values_of(read({"tags"}).columns[0]), (Texts{"Drama, Romance ,", "a  b", "-"}));
  use("numbers.csv", "id,n\n7,25.0\n8,25\n9,-3.0|.0|1.0.0|2.50\n0,1e20|2024-01-05\n");
  EXPECT_EQ(values_of(read({"n"}).columns[0]),
            (Texts{"25", "25", "-3+0+1.0.0+2.5", "1e+20+2024-01-05 00:00:00"}));
  use("people.csv", "id,tags\n7,\" Drama, Romance ,|\"\n8,\"\t a  b \"\n9,\" \"\n");
  options_.value_separator = ",";
  EXPECT_EQ(values_of(read({"tags"}).columns[0]), (Texts{"Drama+Romance+|", "a  b", "-"}));
  options_.value_separator = " ";
  EXPECT_EQ(values_of(read({"tags"}).columns[0]), (Texts{"Drama,+Romance+,|", "a+b", "-"}));
  options_.value_separator = "";
  EXPECT_EQ(values_of(read({"tags"}).columns[0]), (Texts{"Drama, Romance ,|", "a  b", "-"}));
}

TEST_F(UserTables, SeparatorIsDetectedOrConfigured) {
  for (const char* const separator : {"\t", ",", "::", "|", ";"}) {
    use("table.txt", std::string("user") + separator + "sex\n1" + separator + "F\n");
    EXPECT_EQ(values_of(read({"sex"}).columns[0]), Texts{"F"}) << separator;
  }
  use("table.txt", "1 F,x\n2 M,y\n");
  options_.separator = " ";
  options_.header = false;
  const FeatureTable table = read({"1"});
  EXPECT_EQ(values_of(table.columns[0]), (Texts{"F,x", "M,y"}));
  EXPECT_EQ(table.columns[0].name, "1");
}

TEST_F(UserTables, PublishedTablesAreRecognizedByName) {
  struct Case {
    std::string file;
    std::string text;
    std::map<std::string, Texts> columns;
  };
  for (const auto& [name, text, columns] : std::initializer_list<Case>{
           {"users.dat",
            "1::F::1::10::48067\n2::M::56::16::70072\n",
            {{"gender", {"F", "M"}}, {"occupation", {"10", "16"}}, {"zip", {"48067", "70072"}}}},
           {"u.user",
            "1|24|M|technician|85711\n2|53|F|other|94043\n",
            {{"age", {"24", "53"}}, {"gender", {"M", "F"}}}},
           {"usersha1-profile.tsv",
            "00\tf\t22\tGermany\tFeb 1, 2007\n01\t\t\t\"Mexico\tMay 5, 2005\n",
            {{"country", {"Germany", "\"Mexico"}}, {"gender", {"f", "-"}}}}}) {
    use(name, text);
    for (const auto& [column, values] : columns) EXPECT_EQ(values_of(read({column}).columns[0]), values);
  }
}

TEST_F(UserTables, MalformedLinesAreCountedOrRejected) {
  std::string text = "user,age\n1,30\n,5\n2\n3,\"x\"y\n" + std::string(5000, '9') + ",1\n";
  for (int user = 10; user < 20; ++user) text += std::to_string(user) + ",40\n";
  use("odd.csv", text);
  const FeatureTable table = read({"age"});
  EXPECT_EQ(table.ids.size(), 11u);
  EXPECT_EQ(values_of(table.columns[0])[0], "30");
  EXPECT_EQ(issues_.lines_dropped(), 4);
  ASSERT_EQ(issues_.list().size(), 4u);
  EXPECT_EQ(issues_.list()[1].what, "user table: too few columns");
  EXPECT_EQ(issues_.list()[1].examples[0], options_.path + ":4: '2'");
  strict_ = true;
  expect_in(refusal({"age"}), {":3: ',5': user table: the user"});
}

TEST_F(UserTables, RejectsMissingColumnsFilesAndUsers) {
  use("people.csv", "id,age\n1,30\n");
  expect_in(
      refusal({"agee"}),
      {"people.csv:1: there is no column 'agee', which the test requires; the table has 2 columns (id, age)"});
  expect_in(refusal({"3"}), {"no column '3'"});
  expect_in(refusal({"-1"}), {"no column '-1'"});
  options_.id_column = "name";
  expect_in(refusal({"age"}), {"no column 'name', which data.source.users.user_column names"});
  options_.id_column = "0";
  options_.header = false;
  expect_in(refusal({"age"}), {"no header"});
  options_.header = true;
  options_.separator = "\n";
  expect_in(refusal({"age"}), {"data.source.users.separator"});
  options_ = {};
  use("twice.csv", "id,age,city,age\n1,30,here,31\n");
  expect_in(refusal({"age"}), {"twice.csv:1: several columns are called 'age', which the test requires"});
  EXPECT_EQ(values_of(read({"3"}).columns[0]), Texts{"31"});
  use("empty.csv", "");
  expect_in(refusal({"age"}), {"is empty"});
  use("none.csv", "id,age\n");
  expect_in(refusal({"age"}), {"contains no users"});
  use("users.dat", "1,F,20,3\n2,M,20,3\n");
  expect_in(refusal({"gender"}), {"users.dat:1: '1,F,20,3': user table: too few columns; 0 users"});
  options_.path = folder_.path("gone.csv");
  expect_in(refusal({"age"}), {"gone.csv: no such file", "data.source.users.path"});
}

using UserTablesInArchives = test::WithArchives<UserTables>;

TEST_F(UserTablesInArchives, TablesAreFoundInFoldersAndArchives) {
  const std::string table = "1::F::1::10::48067\n";
  const auto expect = [&](const std::string& path, const char* gender) {
    options_.path = path;
    EXPECT_EQ(values_of(read({"gender"}).columns[0]), Texts{gender}) << path;
  };
  folder_.write("ml/users.dat", table);
  expect(folder_.path("ml"), "F");
  options_.file = "people.txt";
  expect_in(refusal({"gender"}), {"this folder contains no people.txt"});
  options_.file = "";
  expect(folder_.pack("ml-1m.zip", {{"ml-1m/ratings.dat", "1::2::3::4\n"}, {"ml-1m/users.dat", table}}), "F");
  expect(folder_.path("ml-1m/users.dat"), "F");  // the archive replaces the folder
  expect(folder_.pack("users.dat.gz", {{"users.dat", table}}), "F");
  expect(folder_.pack("one.tar.gz", {{"people.csv", "id,gender\n1,F\n"}}), "F");  // the only file
  options_.path = folder_.pack("two.zip", {{"a.csv", "id,gender\n1,F\n"}, {"b.csv", "id,gender\n1,M\n"}});
  expect_in(refusal({"gender"}), {"it contains a.csv, b.csv; set data.source.users.file"});
  options_.file = "b.csv";
  expect(options_.path, "M");
}

TEST_F(UserTables, PartsOfAFolderAreOneTableInTheOrderOfNumbers) {
  options_.id_column = "id";
  folder_.write("parts/_SUCCESS", "");
  folder_.write("parts/part-2.csv", "land,id\nNL,7\nPE,9\n");
  folder_.write("parts/part-10.csv", "id,land\n8,NL\n7,CH\n");
  folder_.write("parts/part-11.csv", "");
  folder_.write("parts/part-1.jsonl", "{\"id\": 6, \"land\": \"SE\"}\n");
  for (const char* path : {"parts", "parts/part-*"}) {
    options_.path = folder_.path(path);
    const FeatureTable table = read({"land"});
    EXPECT_EQ(table.ids.ids(), (Texts{"6", "7", "9", "8"})) << path;
    EXPECT_EQ(values_of(table.columns[0]), (Texts{"SE", "NL+CH", "PE", "NL"})) << path;
    EXPECT_EQ(table.file, options_.path);
  }
  options_.path = folder_.path("parts");
  options_.file = "part-10.csv";
  EXPECT_EQ(read({"land"}).ids.ids(), (Texts{"8", "7"}));
  options_.file = "";
  std::filesystem::create_directory(folder_.path("parts/more"));
  expect_in(refusal({"land"}), {"contains the folder more; set data.source.users.path"});
  options_.path = folder_.path("none");
  std::filesystem::create_directory(options_.path);
  expect_in(refusal({"land"}), {"this folder contains no file; check data.source.users.path"});
}

// As the values of a DataFrame: a list has several values, a text is separated, numbers and booleans are as
// in Python.
TEST_F(UserTables, JsonObjectsAreRows) {
  use("people.jsonl",
      R"({"id": 7, "tags": ["A", null, "B|C", " D "], "n": 1999.0, "b": true, "x": NaN}
{"id": "8", "tags": "A|B", "n": 1e20, "b": false}

{"n": 0.1, "tags": [], "id": 9.0, "b": null}
{"id": 7, "tags": [1, 2.5], "n": 1e-7}
{"id": 10, "tags": {}}
{"id": 11 "tags": []}
{"tags": []}
[1]
{"id": 12, "n": -0.0}
)");
  options_.id_column = "id";
  const FeatureTable table = read({"tags", "n", "b"});
  EXPECT_EQ(table.ids.ids(), (Texts{"7", "8", "9", "12"}));
  EXPECT_EQ(table.joined_lines, 1);
  EXPECT_EQ(values_of(table.columns[0]), (Texts{"A+B|C+D+1+2.5", "A+B", "-", "-"}));
  EXPECT_EQ(values_of(table.columns[1]), (Texts{"1999+1e-07", "1e+20", "0.1", "0"}));
  EXPECT_EQ(values_of(table.columns[2]), (Texts{"True", "False", "-", "-"}));
  EXPECT_EQ(table.columns[1].name, "n");
  Texts problems;
  for (const DataIssue& issue : issues_.list()) problems.push_back(issue.what);
  EXPECT_EQ(problems,
            (Texts{"user table: a value is neither text, a number, true or false, nor a list of these",
                   "user table: the line is not JSON", "user table: the user id is empty",
                   "user table: the line is not a JSON object"}));
  expect_in(issues_.list()[1].examples[0], {"people.jsonl:7: '{", "(column 16: syntax error"});
  expect_in(refusal({"tags", "age"}),
            {"people.jsonl: no JSON object has the key 'age', which the test requires", "data.source.users"});
  options_.id_column = "0";
  expect_in(refusal({"tags"}), {"has the key '0', which data.source.users.user_column names"});
  use("array.json", "[{\"id\": 7, \"tags\": 1}]\n");
  expect_in(refusal({"tags"}), {"array.json: is a JSON array", "jq -c '.[]'"});
}

class ItemTables : public UserTables {
 protected:
  ItemTables() { options_.of = TableOf::items; }
};

TEST_F(ItemTables, AFieldMayHaveSeveralValues) {
  use("items.csv", "id,tags,year\n7,a| b |a,1999\n8,,2000\n9,|c|,1999\n");
  FeatureTable table = read({"tags", "year"});
  EXPECT_EQ(table.ids.take(), (Texts{"7", "8", "9"}));
  EXPECT_EQ(values_of(table.columns[0]), (Texts{"a+b+a", "-", "c"}));
  EXPECT_EQ(values_of(table.columns[1]), (Texts{"1999", "2000", "1999"}));
  use("bars.txt", "id|tag\n7|a\n");
  EXPECT_EQ(values_of(read({"tag"}).columns[0]), Texts{"a"});
  options_ = {};
  use("people.csv", "id,tags\n7,a|b\n");
  EXPECT_EQ(values_of(read({"tags"}).columns[0]), Texts{"a+b"}) << "values of users, too";
}

TEST_F(ItemTables, PublishedTablesAreRecognizedByName) {
  const std::string dates = "|01-Jan-1995||http://x|";
  for (const auto& [name, text, genres] : std::initializer_list<std::tuple<std::string, std::string, Texts>>{
           {"movies.dat",
            "1::Toy Story (1995)::Animation|Children's|Comedy\n2::Heat::Action\n",
            {"Animation+Children's+Comedy", "Action"}},
           {"movies.csv",
            "movieId,title,genres\n1,\"American President, The\",Comedy|Drama\n9,X,(no genres listed)\n",
            {"Comedy+Drama", "-"}},
           {"u.item",
            "1|Toy Story (1995)" + dates + "0|0|0|1|1|1|0|0|0|0|0|0|0|0|0|0|0|0|0\n" + "2|unknown" + dates +
                "1|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n" + "3|Z" + dates +
                "0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|1\n",
            {"Animation+Children's+Comedy", "-", "Western"}}}) {
    use(name, text);
    const FeatureTable table = read({"genres"});
    EXPECT_EQ(table.columns[0].name, "genres");
    EXPECT_EQ(values_of(table.columns[0]), genres) << name;
    EXPECT_EQ(issues_.list().size(), 0U);
  }
}

TEST_F(ItemTables, MalformedLinesNameFileLineAndKeys) {
  use("movies.dat", "1::A::Drama\n2::B\n1::C::Action\n3::D::Action\n4::E::Action\n");
  EXPECT_EQ(values_of(read({"genres"}).columns[0]), (Texts{"Drama+Action", "Action", "Action"}));
  EXPECT_EQ(issues_.list()[0].what, "item table: too few columns");
  ASSERT_EQ(issues_.list().size(), 1U);
  strict_ = true;
  expect_in(refusal({"genres"}), {"movies.dat:2: '2::B': item table: too few columns"});
  strict_ = false;
  use("u.item", "1|A|1|2|3|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|0|yes|0\n");
  expect_in(refusal({"genres"}),
            {"u.item:1: '1|A|1|2|3|0|", "item table: a flag is neither 0 nor 1; 0 items"});
  use("none.csv", "id,tags\n");
  expect_in(refusal({"tags"}), {"contains no items; check data.source.items.path"});
  options_.id_column = "name";
  expect_in(refusal({"tags"}), {"no column 'name', which data.source.items.item_column names"});
  options_.path = folder_.path("gone.csv");
  expect_in(refusal({"tags"}),
            {"gone.csv: no such file; check the path of the item table (data.source.items.path)"});
}

TEST_F(UserTables, UnseenUsersAreHashedLikeThoseOfTheDataset) {
  const FeatureHashing hashing({{"gender", 2, 16}, {"occupation", 2, 16}});
  use("new.csv", "who,occupation,gender\nanna,12,F\nben,,\ncleo,12,\n");
  const HashedUsers users = read_hashed_users(options_, hashing, log_);
  EXPECT_EQ(users.ids, (Texts{"anna", "ben", "cleo"}));
  EXPECT_EQ(users.rows.offsets, (Integers{0, 4, 4, 6}));
  EXPECT_EQ(users.rows.columns, (Numbers{15, 18, 37, 51, 37, 51}));
  use("other.csv", "who,gender\nanna,F\n");
  const auto refused = [&] {
    return message_of<InputError>([&] { read_hashed_users(options_, hashing, log_); });
  };
  expect_in(refused(), {"no column 'occupation', which the model was trained with"});
}

// Computed with an implementation of XXH64 in Python, from the formula in the header.
TEST(FeatureHashing, RowsMatchTheDocumentedFormula) {
  const FeatureHashing hashing({{"gender", 2, 16}, {"occupation", 2, 16}, {"country", 3, 20}});
  EXPECT_EQ(hashing.features(), 2 * 16 + 2 * 16 + 3 * 20);
  EXPECT_EQ(hashing.columns(), (Texts{"gender", "occupation", "country"}));
  EXPECT_EQ(hashing.row(Texts{"F", "12", "Germany"}), (Numbers{15, 18, 37, 51, 79, 99, 123}));
  EXPECT_EQ(hashing.row(Texts{"M", "", ""}), (Numbers{3, 22}));
  EXPECT_EQ(hashing.row(Texts{"", "", ""}), Numbers{});
  EXPECT_THROW(hashing.row(Texts{"F"}), InputError);
  EXPECT_EQ(FeatureHashing().features(), 0);
}

TEST(FeatureHashing, AttributeRoundTrips) {
  const FeatureHashing hashing({{"zip code", 1, 40}, {"\xc3\xa4ge 2", 16, 1}});
  EXPECT_EQ(hashing.to_string(), "xxh64 1\n1 40 zip code\n16 1 \xc3\xa4ge 2");
  EXPECT_EQ(FeatureHashing::parse(hashing.to_string()), hashing);
  EXPECT_EQ(FeatureHashing::parse("xxh64 1").features(), 0);
  EXPECT_EQ(FeatureHashing::parse("xxh64 1\n2 3 a\n").features(), 6);
}

TEST(FeatureHashing, ParseRejectsInvalidText) {
  for (const char* text :
       {"", "xxh64 2\n2 16 a", "crc", "xxh64 1\n\n", "xxh64 1\n2", "xxh64 1\n2 16", "xxh64 1\n2 16 ",
        "xxh64 1\n0 16 a", "xxh64 1\n17 16 a", "xxh64 1\n2 0 a", "xxh64 1\n-2 -16 a",
        "xxh64 1\n2 16 a\n2 16 a", "xxh64 1\n2 1073741824 a", "xxh64 1\n2 9223372036854775807 a",
        "xxh64 1\n1 2147483647 a\n1 1 b", "xxh64 1\n2 99999999999999999999 a", "xxh64 1\n2 16 a\rb"}) {
    EXPECT_THROW(FeatureHashing::parse(text), InputError) << text;
  }
  std::string many = "xxh64 1";
  for (int column = 0; column <= 4096; ++column) many += "\n1 1 " + std::to_string(column);
  EXPECT_THROW(FeatureHashing::parse(many), InputError);
  EXPECT_EQ(FeatureHashing::parse(many.substr(0, many.rfind('\n'))).features(), 4096);
  EXPECT_EQ(FeatureHashing::parse("xxh64 1\n1 2147483647 a").features(), 2147483647);
}

TEST(FeatureHashing, DefaultBucketsAreTheSquareRootAndAtLeast16) {
  EXPECT_EQ(FeatureHashing::default_buckets(0), 16);
  EXPECT_EQ(FeatureHashing::default_buckets(16), 16);
  EXPECT_EQ(FeatureHashing::default_buckets(17), 17);
  EXPECT_EQ(FeatureHashing::default_buckets(1000000), 1000000);
}

}  // namespace
}  // namespace vaecf::data
