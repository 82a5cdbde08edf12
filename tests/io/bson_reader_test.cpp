#include <vaecf/base/error.hpp>
#include <vaecf/io/source_reader.hpp>

#include <algorithm>
#include <cstring>

#include "io/io_fixture.hpp"
#include "support/bson.hpp"

namespace vaecf::io {
namespace {

using namespace vaecf::testing;

BsonReader::Read in_blocks(const std::string& bytes, std::size_t at_a_time) {
  return [bytes, at_a_time, begin = std::size_t{0}](std::span<char> to) mutable {
    const std::size_t count = std::min({to.size(), at_a_time, bytes.size() - begin});
    std::memcpy(to.data(), bytes.data() + begin, count);
    begin += count;
    return count;
  };
}

TEST(BsonReaderTest, ReadsBoardsFromBlocksOfAnySize) {
  const std::string bytes =
      bson_board("b1", {"p1", "p2"}) + bson_board("b\xC3\xA9", {}) + bson_board("b3", {"p1"});
  for (const std::size_t at_a_time : {1u, 7u, 1000000u}) {
    BsonReader reader("boards.bson", in_blocks(bytes, at_a_time));
    std::vector<std::string> seen;
    while (reader.next()) {
      std::string board;
      ASSERT_TRUE(reader.id("board_id", board));
      EXPECT_EQ(reader.for_each_id("pins", [&](auto pin) { seen.push_back(board + "/" + std::string(pin)); }),
                0);
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"b1/p1", "b1/p2", "b3/p1"}));
  }
}

TEST(BsonReaderTest, ReadsIdsOfAllTypesAndCountsOtherValues) {
  const std::string half("\0\0\0\0\0\0\xE0\x3F", 8);   // 0.5
  const std::string three("\0\0\0\0\0\0\x08\x40", 8);  // 3.0
  const std::string list =
      bson_element('\x10', "0", little_endian(7, 4)) +
      bson_element('\x12', "1", little_endian(std::uint64_t{1} << 40, 8)) +
      bson_element('\x07', "2", std::string("\x50\x7f\x1f\x77\xbc\xf8\x6c\xd7\x99\x43\x90\x11", 12)) +
      bson_element('\x01', "3", half) + bson_element('\x01', "4", three) + bson_element('\x0A', "5", "") +
      bson_element('\x08', "6", "\x01") + bson_element('\x03', "7", bson_document(""));
  BsonReader reader("x", in_blocks(bson_document(bson_element('\x09', "date", little_endian(0, 8)) +
                                                 bson_element('\x04', "pins", bson_document(list))),
                                   1000));
  ASSERT_TRUE(reader.next());
  std::vector<std::string> ids;
  EXPECT_EQ(reader.for_each_id("pins", [&](auto id) { ids.emplace_back(id); }), 4);
  EXPECT_EQ(ids, (std::vector<std::string>{"7", "1099511627776", "507f1f77bcf86cd799439011", "3"}));
  std::string text;
  EXPECT_FALSE(reader.id("board_id", text));
  EXPECT_FALSE(reader.id("date", text));
  EXPECT_EQ(reader.for_each_id("date", [](auto) {}), -1);
  EXPECT_EQ(reader.for_each_id("none", [](auto) {}), -1);
  EXPECT_FALSE(reader.next());
}

TEST(BsonReaderTest, RejectsTruncatedAndDamagedDocumentsWithOffset) {
  const std::string board = bson_board("b1", {"p1", "p2"});
  const auto read_all = [](const std::string& bytes) {
    BsonReader reader("boards.bson", in_blocks(bytes, 100));
    while (reader.next()) {
    }
  };
  std::string wrong = board;
  wrong[board.find("pins") - 1] = '\x63';  // no such type
  for (const auto& second : {board.substr(0, board.size() - 3), std::string(40, '\xFF'), wrong}) {
    expect_refused<InputError>({format("boards.bson: the BSON document at byte {}", board.size())},
                               [&] { read_all(board + second); });
  }
  read_all(board + board);
  read_all("");
  BsonReader reader("x", [](std::span<char>) -> std::size_t { throw InputError("the disk is gone"); });
  EXPECT_THROW(reader.next(), InputError) << "exceptions of the source are propagated";
}

}  // namespace
}  // namespace vaecf::io
