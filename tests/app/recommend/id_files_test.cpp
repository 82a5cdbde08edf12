#include "app/recommend/id_files.hpp"

#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <fstream>

#include "app/recommend/histories.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::app {
namespace {

class IdFiles : public ::testing::Test {
 protected:
  IdFiles() {
    named_.format = "delimited";
    named_.separator = ";";
    named_.user_column = "who";
    named_.item_column = "what";
    dat_.format = "movielens_dat";
  }

  std::string write(const std::string& text) {
    const std::string path = (folder_.path() / "ids.txt").string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  /// Returns the positions, with "-1" for unknown items, or the error message.
  std::string items(const std::string& text, const ItemNames& names, const data::SourceOptions& source = {}) {
    const FindId find = [&](const data::Table& row, std::size_t column) { return names.find(row, column); };
    return text_of([&] {
      const FoundIds found = read_ids(write(text), source, "item", find);
      std::string positions;
      for (const std::int64_t position : found.positions) positions += format("{} ", position);
      return positions + found.unknown.text();
    });
  }

  /// Returns the categories of each item, or the error message.
  std::string categories(const std::string& text, const std::string& column = "",
                         const data::SourceOptions& source = {}) {
    RecommendArguments arguments;
    arguments.at_most = {write(text), 1};
    arguments.category_column = column;
    return text_of([&] {
      const Csr rows = read_item_categories(arguments, source, numbers_, log_);
      std::string all;
      for (std::int64_t item = 0; item < rows.rows(); ++item) {
        if (item > 0) all += ' ';
        for (const std::int32_t category : rows.view().row(item)) all += std::to_string(category);
      }
      return all;
    });
  }

  template <class Action>
  static std::string text_of(const Action& action) {
    try {
      return action();
    } catch (const InputError& error) {
      return error.what();
    }
  }

  testing::TemporaryFolder folder_;
  const ItemNames numbers_{{{4, 6, 0, 1}, {}}, {{}, {"Heat", "Matrix, The (1999)", "Matrix", "Id"}}};
  const ItemNames words_{{{}, {"a", "b", "item"}}};
  data::SourceOptions named_;
  data::SourceOptions dat_;
  Log log_;
};

TEST_F(IdFiles, ColumnOfIdsIsFoundByHeader) {
  for (const std::string text :
       {",item\n0,4\n1,6\n", "n\tmovie_id\n0\t4\n1\t6\n", "user,item,rating\n1,4,5\n0,6,5\n", "item\n4\n6\n",
        "4\n6\n", "4,further\n6,0\n", "title,ItemID\nId,4\nId,6\n",
        "year,title\n1999,Heat\n1999,\"Matrix, The (1999)\"\n", "title\nHeat\nMatrix, The (1999)\n"})
    EXPECT_EQ(items(text, numbers_), "0 1 ") << text;
  EXPECT_EQ(items("count;what\n0;4\n1;6\n", numbers_, named_), "0 1 ");
  EXPECT_EQ(items("4::Heat (1995)::Drama\n6::x::y\n", numbers_, dat_), "0 1 ");
  EXPECT_EQ(items("item\n4\n7\n\n4\nHeat, The (1995)\n", numbers_), "0 0 0 7");
  EXPECT_EQ(items("sku\n4\n", numbers_), "0 sku") << "an unknown title, perhaps";
  EXPECT_EQ(items("item\nb\n", words_), "2 1 ") << "a known id is no header";
  EXPECT_EQ(items("sku,n\nb,0\n", words_), "1 sku");
}

TEST_F(IdFiles, FirstLineIsAnIdOrAHeader) {
  EXPECT_EQ(items("nothing,4\n4,1\n", numbers_), "0 nothing") << "an unknown title, perhaps";
  expect_in(items(",sku\n0,4\n1,6\n", numbers_),
            {"ids.txt:1: the first line has neither an id in its first column nor",
             "found , sku, expected item", "item_id or the like; correct the header"});
  expect_in(items(",what\n0,a\n", words_), {":1: the first line has neither"});
  expect_in(items(";sku\n1;4\n", numbers_, named_),
            {"found , sku, expected what, item, item_id or the like"});
  expect_in(items("n,item\n1,4\n2\n", numbers_),
            {"ids.txt:3: must have an id in column 1 (from 0), got \"2\""});
}

TEST_F(IdFiles, OtherFormsOfFilesAreNamed) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"ann Q0 3 1 9.5 bm25\nann Q0 5 2 9.25 bm25\n", ":1: is a TREC run (user Q0 item rank"},
           {"1\tQ0\t3\t1\t9.5\tbm25\n", ":1: is a TREC run (user Q0 item rank"},
           {"[{\"user\": 1, \"item\": 3}]\n", ": is a JSON array, but must be a TSV or CSV file"},
           {"[\n  {\"user\": 1, \"item\": 3}\n]\n", ": is a JSON array, but must be a TSV or CSV file"}}) {
    expect_in(items(text, numbers_), {"ids.txt" + message});
    const std::string refusal = message_of<InputError>([&] { read_histories(write(text), {}, numbers_); });
    expect_in(refusal, {"ids.txt" + message});
    EXPECT_EQ(refusal.find("; convert it: jq -r") != std::string::npos, text[0] == '[') << refusal;
  }
}

TEST_F(IdFiles, CategoriesAreTheOtherColumnOrTheOneWithTheHeader) {
  for (const std::string text :
       {"4,x|y\n6,y\n", "item,genre\n4,x | y |\n6,y\n", "genre,item\nx|y,4\ny,6\n",
        ",category,item\n0,x|y,4\n1,y,6\n", "item\tn\tCategory\n4\t0\tx|y\n6\t0\ty\n",
        "4,x\n6,y\n4,y\n4,x\n0,\n", "sku,category\n4,x|y\n6,y\n", "category,sku\nx|y,4\ny,6\n"})
    EXPECT_EQ(categories(text), "01 1  ") << text;
  const std::string three = "movieId,title,genres\n4,Heat,x|y\n6,\"Matrix, The (1999)\",y\n";
  EXPECT_EQ(categories(three, "genres"), "01 1  ");
  EXPECT_EQ(categories(three, "2"), "01 1  ");
  EXPECT_EQ(categories("4::Heat::x|y\n6::Matrix::y\n", "2", dat_), "01 1  ");
  EXPECT_EQ(categories("what;n;kind\n4;0;x|y\n6;0;y\n", "kind", named_), "01 1  ");
  for (const std::string& text :
       {three, three.substr(three.find('4')), std::string("item,genre,category_name\n")})
    expect_in(categories(text), {"ids.txt:1: must have an item and its category", "--category-column NAME"});
  expect_in(categories("4\n"), {"ids.txt:1: must have an item in column 0 and its categories in column 1"});
  expect_in(categories("4,x\n,y\n"), {"ids.txt:2: must have an item in column 0 and its categories"});
  expect_in(categories(three, "genre"),
            {"there is no column 'genre' besides that of items", "found movieId, title, genres"});
  expect_in(categories(three, "movieId"), {"there is no column 'movieId' besides"});
  expect_in(categories(three, "3"), {"there is no column '3' besides"});
}

}  // namespace
}  // namespace vaecf::app
