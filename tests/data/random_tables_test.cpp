// Ids and tables of random contents, compared with std::unordered_map and with what was written.
#include <vaecf/data/table.hpp>

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

#include "data/source/ratings_builder.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

/// Adds and looks up `operations` keys of `draw` in an IdTable and in a std::unordered_map.
template <class Id, class Key, class Draw>
void expect_as_a_map(int operations, Draw draw) {
  IdTable<Id, Key> table;
  std::unordered_map<Id, std::int32_t> map;
  std::vector<Id> order;
  for (int i = 0; i < operations; ++i) {
    const Id key = draw();
    const auto found = map.find(key);
    ASSERT_EQ(table.find(key), found == map.end() ? -1 : found->second) << i;
    if (i % 3 == 0) continue;
    if (map.emplace(key, static_cast<std::int32_t>(order.size())).second) order.push_back(key);
    ASSERT_EQ(table.find_or_add(key), map.at(key)) << i;
    ASSERT_EQ(table.size(), map.size());
  }
  EXPECT_EQ(table.ids(), order);
  EXPECT_EQ(table.take(), order);
}

TEST(RandomIds, TableOfNumbersBehavesAsAMap) {
  std::mt19937_64 random(1);
  for (const int shift : {0, 50, 55, 58, 62}) {  // all keys differ, or few exist
    expect_as_a_map<std::int64_t, std::int64_t>(6000,
                                                [&] { return static_cast<std::int64_t>(random()) >> shift; });
  }
  // Keys of equal low bits, at the ends of the type and around 0.
  expect_as_a_map<std::int64_t, std::int64_t>(6000,
                                              [&] { return static_cast<std::int64_t>(random() << 52); });
}

TEST(RandomIds, TableOfTextsBehavesAsAMap) {
  std::mt19937 random(2);
  for (const unsigned lengths : {2U, 4U, 12U}) {
    expect_as_a_map<std::string, std::string_view>(6000, [&] {
      std::string text(random() % lengths, ' ');
      for (char& c : text) c = static_cast<char>("ab\0\xC3"[random() % 4]);
      return text;
    });
  }
}

class RandomTables : public test::DataTest {};

// Fields that need quotes have them, and some of the others.
TEST_F(RandomTables, AreReadAsWritten) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    const std::string separator = std::vector<std::string>{",", ";", "\t", "|", "::"}[below(5)];
    const std::string line_end = below(2) == 0 ? "\n" : "\r\n";
    const std::size_t columns = 2 + below(4);
    std::vector<Texts> written(1 + below(20), Texts(columns));
    std::string text = below(4) == 0 ? "\xEF\xBB\xBF" : "";
    for (Texts& row : written) {
      for (std::size_t c = 0; c < columns; ++c) {
        for (std::size_t length = below(6); length > 0; --length) row[c] += "ab7\"\n ,;|:\t"[below(11)];
        std::string field = row[c];
        const bool plain = field.find_first_not_of("ab7") == std::string::npos;
        if (!plain || (c == 0 && field.empty()) || below(3) == 0) {  // a line of TABs only is an empty one
          for (std::size_t at = 0; (at = field.find('"', at)) != std::string::npos; at += 2)
            field.insert(at, 1, '"');
          field = '"' + field + '"';
        }
        text += (c == 0 ? "" : separator) + field;
      }
      text += line_end;
    }
    if (below(3) == 0) text.resize(text.size() - line_end.size());
    std::vector<Texts> read;
    LineReader lines(io::SourceReader({folder_.write("table.csv", text)}, [](auto&) { return true; }),
                     progress_);
    ASSERT_TRUE(lines.next_file());
    Table table(lines, {.separator = separator, .quotes = true});
    table.require(columns - 1);
    while (table.next()) {
      EXPECT_EQ(table.problem(), nullptr) << text;
      read.emplace_back(table.fields().begin(), table.fields().end());
    }
    ASSERT_EQ(read, written) << text;
  }
}

}  // namespace
}  // namespace vaecf::data
