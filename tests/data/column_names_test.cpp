// Columns that are found by usual names.
#include <gtest/gtest.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class ColumnNames : public test::SourceTest {
 protected:
  ColumnNames() {
    source_.user_column = automatic_column;
    source_.item_column = automatic_column;
  }
};

TEST_F(ColumnNames, AreFoundWhereverTheyAre) {
  for (const char* header : {"user,item", "userId,movieId", "User ID,Item Id", "uid,iid", "user_id,title"}) {
    const std::string names = header;
    const auto comma = names.find(',');
    EXPECT_EQ(read_text(names + "\nu,i\n").pairs, Texts{"u/i"}) << header;
    EXPECT_EQ(read_text(format(",{},x,{}\n0,i,7,u\n", names.substr(comma + 1), names.substr(0, comma))).pairs,
              Texts{"u/i"})
        << "with the index of pandas: " << header;
  }
  EXPECT_EQ(read_text("title,item_id,user\nt,i,u\n").pairs, Texts{"u/i"}) << "an id rather than a title";
  source_.item_column = "sku";
  EXPECT_EQ(read_text("sku,item,user\ns,i,u\n").pairs, Texts{"u/s"});
}

TEST_F(ColumnNames, AreRefusedWithTheHeaderIfThereIsNoneOrAreSeveral) {
  expect_in(refusal_of(",customer,item\n0,u,i\n"),
            {"table.csv:1", "(, customer, item)", "user_id", "set data.source.user_column"});
  expect_in(refusal_of("user,uid,item\na,b,c\n"), {"(user, uid, item)", "set data.source.user_column"});
  expect_in(refusal_of("user,product,book\na,b,c\n"), {"set data.source.item_column"});
  source_.header = false;
  expect_in(refusal_of("1,10\n"), {"without a header", "set data.source.user_column to the index"});
}

TEST_F(ColumnNames, OfJsonAreKeysOfTheFirstObject) {
  EXPECT_EQ(read_text("{\"x\": 1, \"userId\": \"u\", \"track\": 7}\n{\"track\": 8, \"userId\": \"v\"}\n",
                      "json_lines")
                .pairs,
            (Texts{"u/7", "v/8"}));
  expect_in(refusal_of("{\"who\": 1, \"item\": 2}\n", "json_lines"), {"who", "data.source.user_column"});
}

}  // namespace
}  // namespace vaecf::data
