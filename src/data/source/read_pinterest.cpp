#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/bson_reader.hpp>

#include "data/source/source_formats.hpp"

namespace vaecf::data {

// Boards are the users, pins the items. Documents are counted as lines.
void read_pinterest(const SourceOptions&, const SourceFiles& of, SplitPart, RatingsBuilder& to,
                    Progress& progress) {
  io::SourceReader files = of.reader();
  progress.begin("reading", files.total_bytes(), "bytes");
  while (files.next()) {
    to.start_file(files.name(), SplitPart::train);
    io::BsonReader boards(files.name(), [&](std::span<char> bytes) { return files.read(bytes); });
    std::string board;
    for (std::int64_t number = 1; boards.next(); ++number) {
      board.clear();
      const bool named = boards.id("board_id", board) || boards.id("_id", board);
      to.start_line(number, board);
      if (!named) {
        to.drop("the board has no board_id");
        continue;
      }
      const std::int64_t others = boards.for_each_id(
          "pins", [&](std::string_view pin) { to.add(board, pin, RatingsBuilder::no_rating, 0.0, true); });
      if (others < 0) to.drop("the board has no list of pins");
      for (std::int64_t i = 0; i < others; ++i) to.drop("a pin is neither a string nor an integer");
      progress.update(files.bytes_read());
    }
  }
  progress.end();
}

}  // namespace vaecf::data
