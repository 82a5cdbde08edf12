#include <vaecf/base/error.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "app/recommend/histories.hpp"
#include "app/recommend/item_names.hpp"
#include "app/recommend/recommend_arguments.hpp"
#include "app/recommend/target_users.hpp"
#include "app/recommend/user_item_columns.hpp"
#include "support/messages.hpp"
#include "support/packing.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::app {
namespace {

class ListFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    const std::string path = (folder_.path() / "list.txt").string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  /// The fields of all lines.
  using Rows = std::vector<std::vector<std::string>>;
  Rows rows(const std::string& path) {
    Rows all;
    const auto first = [](data::Table& table) {
      table.require(9);
      return false;
    };
    read_rows(path, {}, "", first, [&](const data::Table& row) {
      all.emplace_back(row.fields().begin(), row.fields().end());
      last_location_ = row.location();
    });
    return all;
  }

  testing::TemporaryFolder folder_;
  std::string last_location_;
};

TEST_F(ListFiles, CsvFieldsMayBeQuoted) {
  const std::string path = write(
      "\xEF\xBB\xBF"
      "a, \"b, \"\"c\"\"\" ,d\r\n\n \n\"open,\nx\",y\n,\n");
  EXPECT_EQ(rows(path), (Rows{{"a", "b, \"c\"", "d"}, {"open,\nx", "y"}, {"", ""}}));
  EXPECT_EQ(last_location_, path + ":6");
  expect_in(message_of<InputError>([&] { rows(write("a,b\n\"open,x\n")); }),
            {":2: ", "is not closed before the end of the file; close the quote, or double it"});
}

TEST_F(ListFiles, FilesWithoutLinesAreErrors) {
  EXPECT_NE(message_of<InputError>([&] {
              read_histories(write(""), {}, ItemNames({{10}, {}}));
            }),
            "(nothing thrown)");
  const std::string none = (folder_.path() / "none.csv").string();
  expect_in(message_of<InputError>([&] { read_histories(none, {}, ItemNames({{10}, {}})); }), {none});
}

TEST_F(ListFiles, UnknownItemsOfAFileAreCounted) {
  const Histories none = read_histories(write("ann,30\nbob,40\n"), {}, ItemNames({{10, 20}, {}}));
  EXPECT_EQ(none.unknown.count(), 2);
  EXPECT_TRUE(none.seen.columns.empty());
  EXPECT_EQ(read_histories(write("ann,30\nbob,10\n"), {}, ItemNames({{10, 20}, {}})).users.size(), 2U);
}

TEST_F(ListFiles, TsvHasNoQuotes) {
  EXPECT_EQ(rows(write("ann\t\"Heat\", 1995\n")), (Rows{{"ann", "\"Heat\", 1995"}}));
}

TEST_F(ListFiles, CompressedFilesAndSingleFileArchivesAreRead) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  using testing::packed;
  const std::string text = "user,item\r\nann,10\r\nann,20\r\n";
  for (const std::string& bytes :
       {text, packed({{"x", text}}, "raw", "gzip"), packed({{"x", text}}, "raw", "zstd"),
        packed({{"new/", ""}, {"new/users.csv", text}}, "zip", "none")}) {
    EXPECT_EQ(rows(write(bytes)), (Rows{{"user", "item"}, {"ann", "10"}, {"ann", "20"}}));
  }
  const auto refusal = [&](const std::string& bytes) {
    return message_of<InputError>([&] { rows(write(bytes)); });
  };
  expect_in(refusal(packed({{"a.csv", text}, {"b.csv", text}}, "tar", "gzip")), {"contains several files"});
  expect_in(refusal(packed({}, "zip", "none")), {"contains no file"});
  const std::string cut = packed({{"x", std::string(300'000, 'a')}}, "raw", "gzip");
  expect_in(refusal(cut.substr(0, cut.size() / 2)), {"truncated"});
}

TEST_F(ListFiles, PipesAreRead) {
  const std::string pipe = (folder_.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "ann,10\nann,20\n"; });
  EXPECT_EQ(rows(pipe), (Rows{{"ann", "10"}, {"ann", "20"}}));
  writer.join();
}

TEST_F(ListFiles, ItemsAreFoundByIdThenByTitle) {
  const io::IdList ids{{10, 20, 30, 40}, {}};
  const io::IdList titles{{}, {"Heat (1995)", "Casino", "Casino", "10"}};
  const ItemNames names(ids, titles);
  EXPECT_EQ(names.find("30"), 2);
  EXPECT_EQ(names.find("Heat (1995)"), 0);
  EXPECT_EQ(names.find("Casino"), -1) << "two items have this title";
  EXPECT_EQ(names.find("10"), 0) << "ids take precedence over titles";
  EXPECT_EQ(names.find("50"), -1);
  const Histories histories =
      read_histories(write("ann\tHeat (1995)\nbob\t40\nann\t20\nann\t10\nbob\tCasino\n"), {}, names);
  EXPECT_EQ(histories.users, (std::vector<std::string>{"ann", "bob"}));
  EXPECT_EQ(histories.seen.offsets, (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(histories.seen.columns, (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_EQ(histories.unknown.count(), 1);
}

TEST_F(ListFiles, LastItemsOfLongHistoriesAreInTheOrderOfTheFile) {
  io::IdList ids;
  std::string text = "ann,1099\nann,5\n";
  for (int item = 0; item < 1100; ++item) {
    ids.numbers.push_back(item);
    if (item != 1099) text += format("ann,{}\nbob,{}\n", 1098 - item, item % 3);
  }
  const Histories histories = read_histories(write(text), {}, ItemNames(ids));
  const auto ann = histories.last.view().row(0);
  ASSERT_EQ(ann.size(), 1000U);
  EXPECT_EQ(ann.front(), 0);
  EXPECT_EQ(ann.back(), 999) << "the first lines, item 1099 and so on, are not among the last";
  EXPECT_EQ(histories.seen.view().row_size(0), 1100);
  EXPECT_EQ(histories.last.view().row_size(1), 3);
}

// Titles are often written without quotes, one per line or after the user.
TEST_F(ListFiles, TitlesMayContainCommas) {
  const io::IdList ids{{10, 20, 30}, {}};
  const io::IdList titles{{}, {"Matrix, The (1999)", "Matrix", "\"Great Performances\" Cats (1998)"}};
  const ItemNames names(ids, titles);
  const Histories histories = read_histories(
      write("ann,Matrix, The (1999)\nbob,Matrix,5\neve,\"Matrix, The (1999)\",5\n"), {}, names);
  EXPECT_EQ(histories.seen.columns, (std::vector<std::int32_t>{0, 1, 0}));
  EXPECT_EQ(histories.unknown.count(), 0);
}

/// Returns the histories as "USER:COLUMN.." or the error message.
std::string read_as(const data::SourceOptions& source, const ItemNames& names, const std::string& path) {
  try {
    const Histories histories = read_histories(path, source, names);
    std::string text;
    for (std::size_t row = 0; row < histories.users.size(); ++row) {
      text += (row == 0 ? "" : " ") + histories.users[row] + ":";
      for (const auto column : histories.seen.view().row(static_cast<std::int64_t>(row)))
        text += std::to_string(column);
    }
    return text;
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST_F(ListFiles, HistoriesUseTheLayoutOfTheSource) {
  const ItemNames names({{10, 20, 30}, {}}, {{}, {"Heat", "Casino, The; old", "Id"}});
  data::SourceOptions shop;
  shop.format = "delimited";
  shop.separator = ";";
  shop.user_column = "customer_id";
  shop.item_column = "product_sku";
  data::SourceOptions numbers = shop;
  numbers.user_column = "2";
  numbers.item_column = "0";
  data::SourceOptions headless = numbers;
  headless.header = false;
  data::SourceOptions ml;
  ml.format = "movielens_csv";
  data::SourceOptions dat;
  dat.format = "movielens_dat";
  const auto as = [&](const data::SourceOptions& source, const std::string& text) {
    return read_as(source, names, write(text));
  };
  const std::string shop_text = "product_sku;price;customer_id\n10;1;ann\n\"30\";2;bob\n20;3;ann\n";
  EXPECT_EQ(as(shop, shop_text), "ann:01 bob:2");
  EXPECT_EQ(as(numbers, shop_text), "ann:01 bob:2");
  EXPECT_EQ(as(headless, shop_text.substr(shop_text.find("10"))), "ann:01 bob:2");
  EXPECT_EQ(as(ml, "timestamp,movieId,rating,userId\n0,10,5,ann\n"), "ann:0");
  EXPECT_EQ(as(dat, "7::10::5::0\n7::40::5::0\n7::20::5::0\n"), "7:01");
  for (const auto& source : {shop, numbers, headless, ml, dat, data::SourceOptions{}}) {
    for (const std::string head : {"", "user,item\n", "userId,Movie ID\n", "UID,title\n"}) {
      EXPECT_EQ(as(source, head + "ann,10\nann,20\n"), "ann:01") << source.format << " " << head;
    }
    EXPECT_EQ(as(source, "item,user\n10,ann\n"), "ann:0") << source.format;
    EXPECT_EQ(as(source, "ann,40\nann,Casino, The; old\n"), "ann:1") << "an unknown item may come first";
    EXPECT_EQ(as(source, "ann\tCasino, The; old\nann\t10\n"), "ann:01") << source.format;
    EXPECT_NE(as(source, "customer,product_name\nann,10\n").find("found customer, product_name, expected "),
              std::string::npos)
        << source.format;
  }
  expect_in(as(shop, "customer_id;sku\nann;10\n"), {"expected customer_id, product_sku (or user, item)"});
  EXPECT_EQ(as(dat, "user,artist\nann,10\n"), "ann:0");
}

// With string ids, any field may be an id.
TEST_F(ListFiles, HeaderWithStringIdsIsDetectedByColumnNames) {
  const ItemNames names({{}, {"a", "b"}});
  data::SourceOptions source;
  const auto as = [&](const std::string& text) { return read_as(source, names, write(text)); };
  EXPECT_EQ(as("user,item\nann,a\n"), "ann:0");
  EXPECT_EQ(as("eve,new\nann,a\n"), "eve: ann:0");
  source.format = "delimited";
  source.user_column = "0";
  source.item_column = "1";
  EXPECT_EQ(as("customer,product_name\nann,a\n"), "ann:0") << "columns by number";
  EXPECT_EQ(as("ann,b\n"), "ann:1");
  source.user_column = "who";
  source.item_column = "what";
  expect_in(as("eve,new\nann,a\n"), {"found eve, new, expected who, what (or user, item)"});
}

/// Returns the weights of ann's items, or the error message.
std::string weights_as(const InputWeights& weights, const data::SourceOptions& source,
                       const std::string& path) {
  try {
    const Histories histories = read_histories(path, source, ItemNames({{10, 20, 30}, {}}), &weights);
    std::string text = histories.weights;
    const CsrView rows = histories.seen.view();
    for (std::size_t k = 0; k < rows.row(0).size(); ++k)
      text += format(" {}:{:.4g}", rows.row(0)[k], rows.sparse_row(0).value(k));
    return text;
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST_F(ListFiles, WeightsAreThoseOfTheColumnOfRatings) {
  data::SourceOptions named;
  named.format = "delimited";
  named.user_column = "who";
  named.item_column = "what";
  named.rating_column = "plays";
  data::SourceOptions numbered;
  numbered.format = "delimited";
  numbered.header = false;
  numbered.user_column = "0";
  numbered.item_column = "1";
  numbered.rating_column = "2";
  const auto as = [&](const data::SourceOptions& source, const std::string& text,
                      const std::string& column = "") {
    return weights_as({data::WeightRule::rating, data::DuplicateRule::first, column}, source, write(text));
  };
  const std::string text = "user,item,plays,1\nann,20,1,8\nann,10,3,8\nann,40,x,8\nbob,10,1,8\n";
  EXPECT_EQ(as(named, text), "plays 0:1.5 1:0.5")
      << "divided by the mean; those of unknown items do not count";
  EXPECT_EQ(as(named, text, "1"), "1 0:1 1:1") << "a name";
  EXPECT_EQ(as(named, text, "3"), "1 0:1 1:1") << "an index";
  EXPECT_EQ(as(numbered, text), " 0:1 1:1") << "an index of data.source means none of a file with a header";
  EXPECT_EQ(as(numbered, text, "plays"), "plays 0:1.5 1:0.5");
  EXPECT_EQ(as(numbered, "ann,20,1\nann,10,3\n"), "2 (from 0) 0:1.5 1:0.5");
  EXPECT_EQ(as(numbered, "ann,20\nann,10\n"), " 0:1 1:1");
  EXPECT_EQ(as(named, "ann,20,1\nann,10,3\n"), " 0:1 1:1");
  data::SourceOptions netflix;  // whose item is in no column
  netflix.format = "netflix";
  EXPECT_EQ(as(netflix, "ann,20,1\nann,10,3\n"), " 0:1 1:1");
  for (const std::string column : {"item", "4", "other"})
    expect_in(as(named, text, column), {":1: there is no column '" + column, "found user, item, plays, 1"});
  expect_in(as(named, "user,item,plays\nann,20,1\nann,10,much\n"),
            {":3: must have a number in column plays, which is read as weight, got \"much\""});
  expect_in(as(named, "user,item,plays\nann,20\n"),
            {":2: must have a user in column 0", "a number in column 2"});
  for (const std::string value : {"nan", "inf", "", "1e99"})
    expect_in(as(named, "user,item,plays\nann,20," + value + "\nbob,10,1\n"), {":2: must have a"});
}

TEST_F(ListFiles, ValuesOfRepeatedItemsAreCombinedAndTransformed) {
  using data::DuplicateRule;
  using data::WeightRule;
  data::SourceOptions source;
  const std::string text = "user,item,n\nann,10,3\nann,20,4\nann,10,-1\nann,10,6\nann,20,0\n";
  const auto as = [&](WeightRule transformation, DuplicateRule rule, const std::string& lines) {
    return weights_as({transformation, rule, "n"}, source, write(lines));
  };
  EXPECT_EQ(as(WeightRule::rating, DuplicateRule::first, text), "n 0:0.8571 1:1.143");
  EXPECT_EQ(as(WeightRule::rating, DuplicateRule::sum, text), "n 0:1.333 1:0.6667");
  EXPECT_EQ(as(WeightRule::rating, DuplicateRule::max, text), "n 0:1.2 1:0.8");
  expect_in(as(WeightRule::rating, DuplicateRule::last, text), {":3: the value 0 gives no weight above 0"});
  EXPECT_EQ(as(WeightRule::log1p, DuplicateRule::first, "user,item,n\nann,10,9\nann,20,1\nann,30,4\n"),
            "n 0:1.5 1:0.4515 2:1.048");
  for (const std::string value : {"0", "-0.5", "-1", "-3"}) {
    for (const auto transformation : {WeightRule::rating, WeightRule::log1p}) {
      expect_in(as(transformation, DuplicateRule::first, "user,item,n\nann,10,2\nann,20," + value + "\n"),
                {":3: the value " + value + " gives no weight above 0; correct or remove the line"});
    }
  }
}

// Validation and test users may also be train users, in any order; each is listed once with all items.
TEST_F(ListFiles, SplitAllListsEveryUserOnce) {
  const std::string path = (folder_.path() / "data.h5").string();
  {
    io::DatasetWriter writer(path);
    writer.set_attribute("items", std::int64_t{9});
    for (const auto& [matrix, rows] :
         std::vector<std::pair<std::string, std::vector<std::vector<std::int32_t>>>>{
             {"train", {{1, 2}, {3}, {4, 5}}},
             {"validation/fold_in", {{4, 5}}},
             {"validation/held_out", {{0}}},
             {"test/fold_in", {{3}, {7}}},
             {"test/held_out", {{1}, {8}}}}) {
      for (const auto& row : rows) writer.append_row(matrix, row);
    }
    writer.write_ids("train/user_id", {{7, 5, 6}, {}});
    writer.write_ids("validation/user_id", {{6}, {}});
    writer.write_ids("test/user_id", {{5, 4}, {}});
    writer.commit();
  }
  const std::string checkpoint = (folder_.path() / "model.h5").string();
  io::write_checkpoint(checkpoint, {}, {});
  const io::DatasetFile file(path);
  RecommendArguments arguments;
  arguments.split = "all";
  Log log;
  const auto everybody =
      make_target_users(arguments, {}, &file, io::CheckpointFile(checkpoint), ItemNames({}), log);
  EXPECT_EQ(everybody.users.numbers, (std::vector<std::int64_t>{7, 5, 6, 4}));
  const Csr seen = everybody.seen({0, 4});
  EXPECT_EQ(seen.offsets, (std::vector<std::int64_t>{0, 2, 4, 7, 9}));
  EXPECT_EQ(seen.columns, (std::vector<std::int32_t>{1, 2, 1, 3, 0, 4, 5, 7, 8}));
  const Csr some = everybody.seen({1, 3});
  EXPECT_EQ(some.columns, (std::vector<std::int32_t>{1, 3, 0, 4, 5}));
  arguments.user = {"6", "5"};
  const TargetUsers chosen = select_users(everybody, arguments, {}, log);
  EXPECT_EQ(chosen.seen({1, 2}).columns, (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(chosen.features({0, 2}).rows(), 0);
}

// Of a user's parts, the last one has all earlier items; the weights of targets are not stored.
TEST_F(ListFiles, RowsOfADatasetKeepTheirWeights) {
  const std::string path = (folder_.path() / "data.h5").string();
  {
    io::DatasetWriter writer(path);
    writer.set_attribute("items", std::int64_t{9});
    writer.set_attribute("interaction_weights", "rating");
    using Row = std::array<std::int32_t, 2>;
    using Values = std::array<float, 2>;
    writer.append_row("train", {Row{1, 2}, Values{0.5F, 1.5F}});
    writer.append_row("train", {Row{3, 4}, Values{0.75F, 1.25F}});
    writer.append_row("train", {});
    writer.append_row("test/fold_in", {Row{1, 5}, Values{0.25F, 1.75F}});
    writer.append_row("test/held_out", Row{0, 2});
    writer.write_ids("train/user_id", {{7, 8, 9}, {}});
    writer.write_ids("test/user_id", {{7}, {}});
    writer.commit();
  }
  const std::string checkpoint = (folder_.path() / "model.h5").string();
  io::write_checkpoint(checkpoint, {}, {});
  const io::DatasetFile file(path);
  RecommendArguments arguments;
  Log log;
  const auto users_of = [&](const std::string& split) {
    arguments.split = split;
    return make_target_users(arguments, {}, &file, io::CheckpointFile(checkpoint), ItemNames({}), log);
  };
  EXPECT_EQ(users_of("train").seen({0, 3}).values, (std::vector{0.5F, 1.5F, 0.75F, 1.25F}));
  const TargetUsers all = users_of("all");
  const Csr seen = all.seen({0, 3});
  EXPECT_EQ(seen.columns, (std::vector{0, 1, 2, 5, 3, 4}));
  EXPECT_EQ(seen.values, (std::vector{1.0F, 0.25F, 1.5F, 1.75F, 0.75F, 1.25F}));
  arguments.user = {"8", "7"};
  EXPECT_EQ(select_users(all, arguments, {}, log).seen({0, 1}).values, (std::vector{0.75F, 1.25F}));
}

}  // namespace
}  // namespace vaecf::app
